"""The PDF: the book as JSON beside the fixed template, in a folder that is all that Typst may read."""

import importlib.util
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from jobs.types.article.press.book import Book, walk
from jobs.types.article.press.tree import Node

# Wheels that hold nothing but typefaces: Noto Sans CJK (all regions, all weights), Source Sans 3, Source Code Pro.
_FACES = ("manimgx_fonts_cjk", "fontpkg_source_sans_3", "fontpkg_source_code_pro")
_STANDINS = str.maketrans("✅❌❎❤❗❓", "✔✘✘♥!?", "\ufe0e\ufe0f\u20e3")
_LACKING = re.compile("[\u0700-\u08ff\u0980-\u0e7f\u0f00-\u109f\u1200-\u139f\u1780-\u18af\u2728\u2753-\u2757"
                      "\U0001f000-\U0001f0ff\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff]")
_DENSE = re.compile("([\u3041-\u30fa\u3400-\u9fff\uac00-\ud7a3]+)|([^\u3041-\u30fa\u3400-\u9fff\uac00-\ud7a3]+)")
_LONG_WORD = re.compile(r"[!-~]{40}(?=[!-~]{5})")
_NAMED = 8      # characters that a warning shows


def write(book: Book, folder: Path, target: Path, more_faces: Path | None = None) -> list[str]:
    """Set the book; its pictures lie in `folder`/pictures. Answers warnings. RuntimeError when Typst cannot."""
    import typst

    warnings = _drop_damaged(book, folder)
    if more_faces is None and (found := _lacking(book)):
        warnings.append(f"The typefaces of the PDF lack {' '.join(found[:_NAMED])}{' …' if found[_NAMED:] else ''}; "
                        "HTML and EPUB use the reader's own, and the operator can add some (ACCEPTED_FONTS_DIR).")
    for node in _nodes(book):
        if node["kind"] == "emphasis":
            _emphasise(node["content"])
    for node in _nodes(book):
        if "text" in node:      # a word that is wider than the page gets places to break
            node["text"] = _LONG_WORD.sub("\\g<0>\u200b", node["text"].translate(_STANDINS))
    (folder / "book.json").write_text(json.dumps(book.data(), ensure_ascii=False), "utf-8")
    shutil.copyfile(Path(__file__).with_name("template.typ"), folder / "template.typ")
    faces = [_folder_of(name) for name in _FACES] + ([more_faces] if more_faces else [])
    fonts = typst.Fonts(include_system_fonts=False, font_paths=[str(path) for path in faces])
    typst.compile(str(folder / "template.typ"), output=str(target), font_paths=fonts, **_confined(folder))
    return warnings


def _drop_damaged(book: Book, folder: Path) -> list[str]:
    """Leave out pictures whose head is sound, but which Typst cannot decode: one would spoil the whole."""
    import typst

    kinds = {node["name"]: node["source"] for node in _nodes(book) if node["kind"] in ("picture", "image")}
    no_fonts = typst.Fonts(include_system_fonts=False, include_embedded_fonts=False)
    damaged = set()
    for name in kinds:
        probe = folder / "probe.typ"
        probe.write_text('#image("pictures/" + sys.inputs.name, width: 10pt)', "utf-8")
        try:
            typst.compile(str(probe), sys_inputs={"name": name}, font_paths=no_fonts, **_confined(folder))
        except RuntimeError:
            damaged.add(name)
    for node in _nodes(book):
        if node.get("name") in damaged:
            stand_in = {"kind": "emphasis", "content": [{"kind": "text", "text": f"[{node['alt'] or '…'}]"}]}
            node.update({"kind": "paragraph", "content": [stand_in]} if node["kind"] == "picture" else stand_in)
    return [f"The picture {kinds[name][:200]} is left out: it is damaged." for name in sorted(damaged)]


def _emphasise(nodes: list[Node]) -> None:
    """Texts within emphasis become spans of `dotted` and `slanted` pieces."""
    for node in walk(nodes):
        if node["kind"] == "text":
            pieces = [{"kind": "dotted" if dense else "slanted", "text": dense or other}
                      for dense, other in _DENSE.findall(node.pop("text"))]
            node.update(kind="span", content=pieces)


def _lacking(book: Book) -> list[str]:
    texts = [book.title, *(node["text"].translate(_STANDINS) for node in _nodes(book) if "text" in node)]
    return list(dict.fromkeys(char for text in texts for char in _LACKING.findall(text)))


def _nodes(book: Book) -> Iterator[Node]:
    for chapter in book.chapters:
        yield from walk(chapter.article.blocks)
        for note in chapter.article.notes:
            yield from walk(note)


def _confined(folder: Path) -> dict[str, str]:
    """Nothing is read but what lies in the folder, and no package is there or fetched."""
    return {"root": str(folder), "package_path": str(folder / "none"), "package_cache_path": str(folder / "none")}


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    return Path(spec.origin).parent
