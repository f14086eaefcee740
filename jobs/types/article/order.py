"""What the press is ordered to do, and what came of it."""

import json
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs import Context, Problem
from jobs.types.article.press import OUT_OF_MEMORY

_ROOT = Path(__file__).resolve().parents[3]
_SHORTER = "Export fewer or shorter articles at once"


@dataclass(frozen=True)
class Order:
    """One book: its format, its title if that is settled, and what `sources` found."""

    format: str
    title: str | None
    articles: list[dict[str, str]]
    folder: Path | None
    files: dict[str, str]


@dataclass
class Made:
    """What came of it: the file, the book's title, how many articles are in it, and what a reader should know."""

    path: Path
    title: str = ""
    articles: int = 0
    warnings: list[str] = field(default_factory=list)


def carry_out(job: Context, order: Order) -> Made:
    """Let the press do it, watched and bounded. Problems `export-render-failed`, `nothing-to-export`."""
    folder, settings = job.scratch("press"), job.settings
    folder.mkdir()
    (folder / "order.json").write_text(json.dumps({
        "format": order.format, "title": order.title, "articles": order.articles, "files": order.files,
        "folder": order.folder and str(order.folder), "fonts": settings.fonts_dir and str(settings.fonts_dir),
        "seconds": settings.render_timeout, "memory": settings.render_memory}), "utf-8")
    made = Made(folder / "made", articles=len(order.articles))
    failed: list[str] = []

    def hear(line: str) -> None:
        told = _understood(line)
        if "stage" in told:
            job.progress(told["done"], 100, stage=told["stage"])
        elif "warning" in told:
            made.warnings.append(told["warning"])
            job.log(told["warning"])
        elif "skipped" in told:
            made.articles -= 1
            job.skip(told["skipped"], told["reason"])
        elif "failed" in told:
            failed.append(told["failed"])
        made.title = told.get("title", made.title)

    ended = job.run_process([sys.executable, "-m", "jobs.types.article.press", str(folder)], cwd=_ROOT, on_line=hear,
                            check=False, log=False)
    if not made.articles:
        raise Problem("nothing-to-export", "None of the articles could be read.", errors=[
            {"pointer": "#/payload", "detail": f"{one['part']}: {one['detail']}"} for one in job.skipped])
    if failed or ended.returncode:
        raise fault_of(ended.returncode, failed, ended.stderr_tail, settings)
    return made


def fault_of(status: int, failed: list[str], stderr: str, settings: Any) -> Exception:
    """What to tell of a press that left nothing. A failure that is not the articles' fault is worth another attempt."""
    if status == -signal.SIGALRM:
        return _failed(f"It took longer than {settings.render_timeout:g} seconds. {_SHORTER}; "
                       "the operator can raise ACCEPTED_RENDER_TIMEOUT.")
    if status in (OUT_OF_MEMORY, -signal.SIGABRT):
        return _failed(f"It needed more than {settings.render_memory // 1024**2} MB of memory. {_SHORTER}, or with "
                       "smaller pictures; the operator can raise ACCEPTED_RENDER_MEMORY.")
    if failed:
        return _failed(f"The typesetter gave up: {failed[0]}. Something in an article is more than it can set, such as "
                       "very deep nesting. Simplify it, or take another format.")
    if status in (-signal.SIGSEGV, -signal.SIGBUS):
        return _failed("The typesetter broke down, most likely over very deep nesting or a damaged picture. Simplify "
                       "the article, or take another format.")
    return ChildProcessError(f"the press ended with {status}: {stderr.strip().splitlines()[-1:] or 'it said nothing'}")


def _failed(detail: str) -> Problem:
    return Problem("export-render-failed", detail)


def _understood(line: str) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError:      # something that a library printed
        return {}
    return told if isinstance(told, dict) else {}
