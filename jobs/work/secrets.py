"""Secret members of a payload must not come to light by another way: in log lines, stages, problems or results."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from jobs.core.outcome import Again, Failed, Outcome, Succeeded
from jobs.db import Row
from jobs.errors import Problem

COVERED = "•••"
_SHORTEST = 4  # characters; covering shorter ones would garble every text and hide nothing


class Cover:
    """Knows the values that the job shows as ••• and puts that in their place."""

    def __init__(self, row: Row):
        found = set(_hidden(json.loads(row.payload), json.loads(row.payload_private))) if row.payload_private else set()
        self._secrets = sorted((text for text in found if len(text) >= _SHORTEST), key=len, reverse=True)

    def __call__(self, value: Any) -> Any:
        """Any JSON value with every secret in its strings covered."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, COVERED)
            return value
        if isinstance(value, dict):
            return {self(name): self(inner) for name, inner in value.items()}
        return [self(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    def outcome(self, outcome: Outcome | None) -> Outcome | None:
        """What became of an attempt, fit to be shown."""
        match outcome:
            case Succeeded(result, skipped, fields) if self._secrets:
                return Succeeded(self._json(result), self(skipped), fields and self._json(fields))
            case Failed(problem) | Again(problem) if self._secrets:
                return replace(outcome, problem=self._problem(problem))
        return outcome

    def _json(self, text: str) -> str:
        return json.dumps(self(json.loads(text)), ensure_ascii=False, separators=(",", ":"))

    def _problem(self, problem: Problem) -> Problem:
        return Problem(problem.slug, self(problem.detail), status=problem.status, title=self(problem.title),
                       headers=problem.headers, **self(problem.extra))


def _hidden(shown: Any, whole: Any) -> Iterator[str]:
    """The texts in `whole` where `shown` reads •••."""
    if shown == COVERED != whole:
        yield from _texts(whole)
    elif isinstance(shown, dict):
        for name, inner in shown.items():
            yield from _hidden(inner, whole[name])
    elif isinstance(shown, list):
        for covered, inner in zip(shown, whole, strict=True):
            yield from _hidden(covered, inner)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
