"""When the hub has to look after which seat."""

import heapq
import itertools
from collections.abc import Iterator

from jobs.web.seats import Seat

NEVER = float("inf")


class Alarms:
    """A heap that never holds more than a few entries for one seat, however often its time moves."""

    def __init__(self):
        self._heap: list[tuple[float, int, Seat]] = []
        self._count = itertools.count()

    def next(self) -> float:
        """The time of the first alarm."""
        return self._heap[0][0] if self._heap else NEVER

    def set(self, seat: Seat) -> None:
        """Ring when its watcher is due; an alarm that is set already for an earlier time stays."""
        due = seat.watcher.due
        if due < seat.alarm:
            seat.alarm, seat.later_alarm = due, seat.alarm
            heapq.heappush(self._heap, (due, next(self._count), seat))

    def ringing(self, now: float) -> Iterator[Seat]:
        """Seats whose time has come; set their alarm anew."""
        while self._heap and self._heap[0][0] <= now:
            due, _, seat = heapq.heappop(self._heap)
            if due == seat.alarm:
                seat.alarm, seat.later_alarm = seat.later_alarm, NEVER
                yield seat
