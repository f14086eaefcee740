"""How far a job is, in the words of the contract: whole percent that never fall, and an estimate of the end."""

import threading
from typing import Any

from jobs import clock

_MAX_STAGE = 200     # characters
_ESTIMATE_AFTER = 1  # seconds; an estimate from less is a guess


class Meter:
    """Turns what a handler says into what the world sees; each call answers the new state, or None if it is as before.

    Progress is 0..99 and never falls; it is null from the moment a handler works without knowing the total, until it
    does know one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._highest = 0
        self._state: dict[str, Any] = {"progress": 0, "stage": None, "eta": None}
        self._begun: tuple[float, float] | None = None  # when the first fraction was told, and what it was

    def move(self, done: float, total: float | None, stage: str | None) -> dict[str, Any] | None:
        """`done` of `total`; without a total the length is unknown."""
        with self._lock:
            if not total or total < 0:
                progress, eta = self._highest or None, None
            else:
                fraction = min(max(done / total, 0.0), 1.0)
                self._highest = progress = max(self._highest, min(int(100 * fraction), 99))
                eta = self._estimate(fraction)
            return self._change(progress, self._stage(stage), eta)

    def name(self, stage: str) -> dict[str, Any] | None:
        """Another stage at the same place."""
        with self._lock:
            return self._change(self._state["progress"], self._stage(stage), self._state["eta"])

    def _stage(self, text: str | None) -> str | None:
        if text is None:
            return self._state["stage"]
        return str(text).encode(errors="replace").decode().replace("\0", "\ufffd")[:_MAX_STAGE]

    def _change(self, progress: int | None, stage: str | None, eta: str | None) -> dict[str, Any] | None:
        # The estimate moves with every call; alone it is no news.
        if (progress, stage) == (self._state["progress"], self._state["stage"]):
            return None
        self._state = {"progress": progress, "stage": stage, "eta": eta}
        return self._state

    def _estimate(self, fraction: float) -> str | None:
        now = clock.monotonic()
        if self._begun is None:
            self._begun = (now, fraction)
        started, first = self._begun
        if now - started < _ESTIMATE_AFTER or fraction <= first:
            return None
        return clock.after((now - started) / (fraction - first) * (1 - fraction))
