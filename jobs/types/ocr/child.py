"""The process that reads: `python -m jobs.types.ocr.child FILE FIRST LAST`, LAST 0 for all.

It says on its standard output, one JSON object in a line: `{"total": pages}`, then for each page `{"page": {…}}` or
`{"failed": [number, reason]}`; or only `{"refused": [slug, detail]}`. It ends with 0 if it could say all that.
"""

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from jobs.types.ocr.pages import Refused, Unreadable, open_source

MEMORY = 4 * 1024**3     # bytes of address space: a file that needs more to be decoded is a bomb


def main(path: Path, first: int, last: int) -> None:
    """Read pages `first` to `last`, counted from 1."""
    say = _voice()
    _bound_memory()
    try:
        source = open_source(path)
        numbers = source.choose(first, last)
    except Refused as refused:
        say(refused=[refused.slug, str(refused)])
        return
    say(total=len(numbers))
    from jobs.types.ocr.reading import Reader  # not before the file is known to be good: this takes a second or two
    reader = Reader()
    for number in numbers:
        try:
            page = source.page(number)
            lines = reader.read(page)
        except Unreadable as reason:
            say(failed=[number, str(reason)])
        except MemoryError:
            say(failed=[number, "it takes too much memory"])
        else:
            say(page={"page": number, "width": page.width, "height": page.height, "unit": page.unit, "lines": lines})


def _voice():
    """What the libraries print must not get between our lines: it goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(**message: Any) -> None:
        print(json.dumps(message, ensure_ascii=False), file=out, flush=True)

    return say


def _bound_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    except (OSError, ValueError):
        pass        # macOS does not know it


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
