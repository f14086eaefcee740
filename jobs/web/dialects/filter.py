"""The filter of AIP-160 as far as operations need it: comparisons joined by AND and OR, where OR binds tighter."""

import re

from jobs.core.states import TERMINAL, Status
from jobs.errors import Problem
from jobs.web import filters

Clause = tuple[tuple[str, ...], tuple[str, ...]]
"""(statuses, types): one of these statuses, or one of these types."""

_COMPARISON = re.compile(r'\s*(?:(done)\s*=\s*(true|false)|metadata\.(?:value\.)?(status|type)\s*=\s*"([^"\\]*)")\s*')
_JOIN = re.compile(r"(AND|OR)\b")


def parse(text: str) -> tuple[Clause, ...]:
    """The clauses of a filter, all of which must hold. Problem 400 for anything else than

    `done=true`, `done=false`, `metadata.status="…"`, `metadata.type="…"` (`metadata.value.…` too), AND, OR.
    """
    if not text.strip():
        return ()
    clauses: list[Clause] = [((), ())]
    position = 0
    while True:
        comparison = _COMPARISON.match(text, position)
        if not comparison:
            raise _unusable(f"no comparison that is known here begins at character {position + 1}")
        statuses, types = _meant(*comparison.groups())
        clauses[-1] = clauses[-1][0] + statuses, clauses[-1][1] + types
        position = comparison.end()
        if position == len(text):
            return tuple(clauses)
        join = _JOIN.match(text, position)
        if not join:
            raise _unusable(f"AND or OR is missing at character {position + 1}")
        if join[1] == "AND":
            clauses.append(((), ()))
        position = join.end()


def _meant(done: str | None, truth: str | None, name: str | None, value: str | None) -> Clause:
    if done:
        return tuple(sorted(TERMINAL if truth == "true" else set(Status) - TERMINAL)), ()
    try:
        filters.read({name: [value]})
    except filters.Unusable as fault:
        raise _unusable(str(fault)) from None
    return ((value,), ()) if name == "status" else ((), (value,))


def _unusable(why: str) -> Problem:
    return Problem("bad-parameter", f"filter: {why}. Known are done=true, done=false, metadata.status=\"…\" and "
                                    f"metadata.type=\"…\", joined by AND and OR.")
