"""How the processes of the server log: `LEVEL logger message` on stderr. The supervisor adds time and process, and picks.

What is worth a line in everyday use is a warning, or is told to the logger `accepted.jobs`: one line for each attempt.
"""

import logging
import re

_ROUTINE = re.compile(r"(?:\[[^]]*\] \[\d+\] \[(?:DEBUG|INFO)\]|(?:DEBUG|INFO) (?!accepted\.jobs )) ?")


def set_up() -> None:
    """Send this process's log to stderr, from INFO up."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")


def routine(line: str) -> bool:
    """Whether a line is of interest only to who asked for everything: gunicorn's and our own below a warning."""
    return bool(_ROUTINE.match(line))
