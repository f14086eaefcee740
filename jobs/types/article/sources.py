"""Where the articles come from.

Each function gives the articles (name, path), and the folder of their pictures, or the pictures by name.
"""

import re
from pathlib import Path

from jobs import Context, Problem
from jobs.settings import Settings

TOPIC = r"[^\W_][\w .+&()-]{0,99}\Z"     # one folder: no slash, no dot in front
MAX_ARTICLES = 500
_FIRST = ("index", "readme")            # an introduction stands before the others
_ARTICLES = (".md", ".markdown", ".txt", "")
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg")
Found = tuple[list[dict[str, str]], Path | None, dict[str, str]]


class NoTopic(Exception):
    """Why a topic cannot be exported, and what to do; names nothing that is on the server."""


def of_topic(settings: Settings, topic: str) -> Found:
    """The Markdown files of a folder in ARTICLES_DIR, numbers in names counted as numbers. NoTopic."""
    if not settings.articles_dir:
        raise NoTopic("This server keeps no articles. Send markdown or files instead, or ask its operator to set "
                      "ACCEPTED_ARTICLES_DIR.")
    home = settings.articles_dir.resolve()
    folder = home / topic
    if not re.match(TOPIC, topic) or not folder.is_dir():
        raise NoTopic("There is no such topic. Ask the operator for its name, or send markdown or files instead.")
    paths = sorted((path for path in folder.glob("*.md") if _belongs(path, folder)), key=_place)
    if not paths:
        raise NoTopic("This topic has no articles yet: its folder holds no .md file.")
    if len(paths) > MAX_ARTICLES:
        raise NoTopic(f"This topic has more than {MAX_ARTICLES} articles, too many for one export.")
    return [{"name": path.name, "path": str(path)} for path in paths], folder, {}


def of_topic_or_problem(job: Context, topic: str) -> Found:
    """The same for a job, whose topic may have gone since it was submitted."""
    try:
        return of_topic(job.settings, topic)
    except NoTopic as reason:
        raise Problem("nothing-to-export", str(reason)) from None


def of_text(job: Context, markdown: str) -> Found:
    """The text of the request, which has no pictures."""
    path = job.workdir / "article.md"
    path.write_text(markdown, "utf-8")
    return [{"name": "article.md", "path": str(path)}], None, {}


def of_files(job: Context, files: list[str]) -> Found:
    """Uploads: Markdown in the order given, and the pictures that it shows by their names."""
    articles, pictures = [], {}
    for done, source in enumerate(files):
        job.progress(5 * done, 100 * len(files))
        name, path = job.name_of(source), job.open_input(source)
        ending = Path(name).suffix.lower()
        if ending in _PICTURES:
            pictures[name] = str(path)
        elif ending in _ARTICLES:
            articles.append({"name": name, "path": str(path)})
        else:
            job.skip(name, f"It is neither Markdown ({', '.join(_ARTICLES[:-1])}) "
                           f"nor a picture ({', '.join(_PICTURES)}).")
    if not articles:
        raise Problem("nothing-to-export", "Among the files is no Markdown: upload it with a name that ends in .md.")
    return articles, None, pictures


def _belongs(path: Path, folder: Path) -> bool:
    """A visible file of the folder itself; a symbolic link that leads out of it is none."""
    return not path.name.startswith(".") and path.is_file() and path.resolve().is_relative_to(folder.resolve())


def _place(path: Path) -> tuple:
    parts = re.split(r"(\d+)", path.name.lower())
    natural = [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
    return path.stem.lower() not in _FIRST, natural, path.name
