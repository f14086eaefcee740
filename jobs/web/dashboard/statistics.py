"""How much was done, and how long it took, over the last hour, day or week: numbers, and the bars of a chart."""

import statistics
import threading
from dataclasses import dataclass, field
from datetime import timedelta

from jobs import clock
from jobs.core import overview
from jobs.core.states import Status
from jobs.db import Reader

WIDTH, HEIGHT = 480.0, 88.0
_GAP = 2.0
_ORDER = ((Status.SUCCEEDED, Status.PARTIAL), (Status.FAILED,), (Status.CANCELLED,))  # from the ground up


@dataclass(frozen=True)
class Span:
    """A stretch of time, cut into bars; `fresh`: seconds for which its figures are good enough."""

    bars: int
    seconds: int
    fresh: float


SPANS = {"hour": Span(12, 300, 5), "day": Span(24, 3600, 30), "week": Span(28, 21600, 120)}


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


_lock = threading.Lock()
_known: dict[tuple[str, str | None, int], tuple[float, Figures]] = {}


def of(reader: Reader, owner: str | None, name: str, place: int) -> Figures:
    """The figures of a span (`hour`, `day`, `week`) for an owner or all; `place` tells one database from another.

    They are counted at most every few seconds, and the longer the span the more seldom.
    """
    span, key, now = SPANS[name], (name, owner, place), clock.monotonic()
    with _lock:
        at, found = _known.get(key, (None, None))
        if at is None or now - at > span.fresh:
            if len(_known) > 500:
                _known.clear()
            found = _count(reader, owner, span)
            _known[key] = clock.monotonic(), found
    return found


def _count(reader: Reader, owner: str | None, span: Span) -> Figures:
    now = int(clock.now().timestamp())
    end = now - now % span.seconds + span.seconds
    first = end - span.bars * span.seconds
    start = clock.now() - timedelta(seconds=now - first)
    figures = Figures(clock.wire(start.replace(microsecond=0)), WIDTH / span.bars - _GAP)
    heights = [[0] * len(_ORDER) for _ in range(span.bars)]
    for row in overview.ended_by_minute(reader, owner, figures.start, hours=span.seconds >= 3600):
        instant = int(clock.parse(row.minute + (":00:00Z" if len(row.minute) == 13 else ":00Z")).timestamp())
        bar = min(max((instant - first) // span.seconds, 0), span.bars - 1)
        layer = next(layer for layer, statuses in enumerate(_ORDER) if row.status in statuses)
        heights[bar][layer] += row.number
    figures.well, figures.badly, figures.cancelled = (sum(bar[layer] for bar in heights) for layer in range(len(_ORDER)))
    figures.most = max(map(sum, heights))
    figures.pieces = list(_pieces(heights, figures.most))
    took = [(clock.parse(row.finished_at) - clock.parse(row.started_at)).total_seconds()
            for row in overview.latest_spans(reader, owner, figures.start)]
    figures.usual = statistics.median(took) if took else None
    return figures


def _pieces(heights: list[list[int]], most: int):
    for place, bar in enumerate(heights):
        below = HEIGHT
        for layer, number in enumerate(bar):
            if number:
                height = max(number / most * HEIGHT, 1.5)
                below -= height
                kind = ("succeeded", "failed", "cancelled")[layer]
                yield Piece(kind, round(place * WIDTH / len(heights), 2), round(below, 2), round(height, 2))
