"""How much was done, and how long it took, over the last hour, day or week: numbers, and the bars of a chart.

What has ended is counted once, in steps of five minutes, and remembered; later looks count only what has ended since.
"""

import statistics
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from jobs import clock
from jobs.core import overview
from jobs.core.states import Status
from jobs.db import Reader

WIDTH, HEIGHT = 480.0, 88.0
_GAP = 2.0
_ORDER = ((Status.SUCCEEDED, Status.PARTIAL), (Status.FAILED,), (Status.CANCELLED,))  # from the ground up
_STEP = 300             # seconds; every bar is some of them
_FRESH = 5.0            # seconds for which figures are good enough
_LATE = 60              # seconds by which an end may come to the database after the time that it bears
_KEPT = 8 * 86400       # seconds for which what was counted is remembered
_MOST_READERS = 100


@dataclass(frozen=True)
class Span:
    """A stretch of time, cut into bars of so many seconds."""

    bars: int
    seconds: int


SPANS = {"hour": Span(12, 300), "day": Span(24, 3600), "week": Span(28, 21600)}


@dataclass(frozen=True)
class Piece:
    """A rectangle of the chart."""

    kind: str
    x: float
    y: float
    height: float


@dataclass
class Figures:
    """`well`, `badly` and `cancelled` are jobs; `usual` is the median duration of the latest in seconds, or None."""

    start: str
    width: float
    most: int = 0
    well: int = 0
    badly: int = 0
    cancelled: int = 0
    usual: float | None = None
    pieces: list[Piece] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.well + self.badly + self.cancelled


class Ledger:
    """What ended in each step, for an owner or all: step (its first second) -> number in each layer of a bar."""

    def __init__(self, owner: str | None):
        self._owner = owner
        self._lock = threading.Lock()
        self._ended: dict[int, list[int]] = {}
        self._since = self._until = 0       # what has been counted
        self._at = 0                        # when it was counted
        self._usual: dict[str, tuple[float, float | None]] = {}

    def read(self, reader: Reader, name: str) -> Figures:
        """The figures of a span: `hour`, `day` or `week`."""
        span, now = SPANS[name], int(clock.now().timestamp())
        end = now - now % span.seconds + span.seconds
        first = end - span.bars * span.seconds
        with self._lock:
            self._count(reader, first, now)
            heights = [[0] * len(_ORDER) for _ in range(span.bars)]
            for step, numbers in self._ended.items():
                if step >= first:
                    bar = heights[min((step - first) // span.seconds, span.bars - 1)]
                    bar[:] = map(sum, zip(bar, numbers, strict=True))
            usual = self._median(reader, name, first)
        figures = Figures(_wire(first), WIDTH / span.bars - _GAP, most=max(map(sum, heights)), usual=usual)
        figures.well, figures.badly, figures.cancelled = (sum(bar[layer] for bar in heights) for layer in range(len(_ORDER)))
        figures.pieces = list(_pieces(heights, figures.most))
        return figures

    def _count(self, reader: Reader, first: int, now: int) -> None:
        if not self._at or now < self._at:      # the first look, or the clock was set back
            self._ended, self._at = {}, 0
            self._since = self._until = now - now % _STEP
        if first < self._since:
            self._add(reader, first, self._since)
            self._since = first
        if now - self._at >= _FRESH:
            again = self._until - _LATE
            self._keep(lambda step: step < again - again % _STEP)
            self._add(reader, max(self._since, again - again % _STEP), None)
            self._until = self._at = now
            oldest = now - _KEPT
            self._since = max(self._since, oldest - oldest % _STEP)
            self._keep(lambda step: step >= self._since)

    def _keep(self, wanted: Callable[[int], bool]) -> None:
        self._ended = {step: numbers for step, numbers in self._ended.items() if wanted(step)}

    def _add(self, reader: Reader, since: int, until: int | None) -> None:
        counted: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(_ORDER))
        for row in overview.ended_by_minute(reader, self._owner, _wire(since), _wire(until) if until else "9"):
            instant = int(clock.parse(f"{row.minute}:00Z").timestamp())
            layer = next(layer for layer, statuses in enumerate(_ORDER) if row.status in statuses)
            counted[instant - instant % _STEP][layer] += row.number
        self._ended |= counted

    def _median(self, reader: Reader, name: str, first: int) -> float | None:
        at, usual = self._usual.get(name, (0.0, None))
        if not at or clock.monotonic() - at > _FRESH:
            took = [(clock.parse(row.finished_at) - clock.parse(row.started_at)).total_seconds()
                    for row in overview.latest_spans(reader, self._owner, _wire(first))]
            usual = statistics.median(took) if took else None
            self._usual[name] = clock.monotonic(), usual
        return usual


_lock = threading.Lock()
_ledgers: dict[tuple[str | None, int], Ledger] = {}


def of(reader: Reader, owner: str | None, name: str, place: int) -> Figures:
    """The figures of a span (`hour`, `day`, `week`) for an owner or all; `place` tells one database from another."""
    with _lock:
        if len(_ledgers) > _MOST_READERS:
            _ledgers.clear()
        ledger = _ledgers.setdefault((owner, place), Ledger(owner))
    return ledger.read(reader, name)


def _wire(second: int) -> str:
    return clock.wire(datetime.fromtimestamp(second, UTC))


def _pieces(heights: list[list[int]], most: int):
    for place, bar in enumerate(heights):
        below = HEIGHT
        for layer, number in enumerate(bar):
            if number:
                height = max(number / most * HEIGHT, 1.5)
                below -= height
                kind = ("succeeded", "failed", "cancelled")[layer]
                yield Piece(kind, round(place * WIDTH / len(heights), 2), round(below, 2), round(height, 2))
