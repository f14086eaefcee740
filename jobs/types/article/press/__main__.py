"""`python -m jobs.types.article.press FOLDER`: reads FOLDER/order.json, leaves FOLDER/made, tells on stdout how it is.

The order: `format`, `title` or null, `articles` (name, path), `folder` of their pictures or null, `files` (name: path),
`fonts` or null, `seconds` and `memory` (bytes) that it may take. Each line that it tells is a JSON object: `stage` with
`done` of 100; `warning`; `skipped` with `reason`; at the end `title`, or `failed`. When its time is over it dies of
SIGALRM.
"""

import json
import resource
import signal
import sys
from pathlib import Path

from jobs.types.article.press import OUT_OF_MEMORY

def main(folder: Path) -> int:
    """Do what the order says; the exit status."""
    order = json.loads((folder / "order.json").read_text("utf-8"))
    _limit(order["seconds"], order["memory"])
    try:
        _make(order, folder)
    except MemoryError:
        return OUT_OF_MEMORY
    except (RuntimeError, RecursionError) as error:     # what Typst says of the template
        tell(failed=str(error).strip().splitlines()[0][:300])
    except BaseException as error:
        if type(error).__name__ != "PanicException":        # Typst's own faults come as this, which cannot be imported
            raise
        tell(failed="an internal error")
    return 0


def tell(**members: object) -> None:
    """One line to whoever started us."""
    print(json.dumps(members, ensure_ascii=True), flush=True)


def _limit(seconds: float, memory: int) -> None:
    """Die when the time is over, whatever runs then; allocate no more than this."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, seconds)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _make(order: dict, folder: Path) -> None:
    from jobs.types.article.press import book, epub, page, pdf
    from jobs.types.article.press.pictures import Pictures

    articles = order["articles"]
    root = folder / "root"
    root.mkdir()
    pictures = Pictures(root / "pictures", order["folder"] and Path(order["folder"]),
                        {name: Path(path) for name, path in order["files"].items()})
    made = book.read(articles, pictures, order["title"],
                     told=lambda done, name: tell(stage=f"reading {name}", done=5 + 35 * done / len(articles)))
    for warning in made.warnings:
        tell(warning=warning)
    for name, reason in made.skipped:
        tell(skipped=name, reason=reason)
    if not made.chapters:
        return
    tell(stage="layout", done=40)
    target = folder / "made"
    match order["format"]:
        case "pdf":
            for warning in pdf.write(made, root, target, order["fonts"] and Path(order["fonts"])):
                tell(warning=warning)
        case "html":
            page.write(made, root, target)
        case "epub":
            epub.write(made, root, target)
    tell(title=made.title)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
