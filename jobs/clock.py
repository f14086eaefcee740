"""The one source of time, and the form in which time travels.

Everything that asks for the date asks here, so that a test can move the clock of real processes: the file named by
`ACCEPTED_TEST_CLOCK` holds an offset in seconds, read at every call.
"""

import os
import time
from datetime import UTC, datetime, timedelta


def now() -> datetime:
    """The present instant in UTC, cut to whole milliseconds (what the wire form can carry)."""
    instant = datetime.now(UTC) + timedelta(seconds=_offset())
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def monotonic() -> float:
    """Seconds on a clock that never jumps; for measuring how long something has stood still."""
    return time.monotonic()


def wire(instant: datetime) -> str:
    """RFC 3339 in UTC with milliseconds and `Z`; of fixed width, so that text order is time order."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse(text: str) -> datetime:
    """Read any RFC 3339 instant that names its offset; ValueError otherwise."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("the time names no offset; end it with Z")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time is out of range") from None


def after(seconds: float, start: datetime | None = None) -> str:
    """The wire form of the instant `seconds` after `start` (now, if not given)."""
    return wire((start or now()) + timedelta(seconds=seconds))


def seconds_until(text: str) -> float:
    """Seconds from now to the instant `text`; negative when it has passed."""
    return (parse(text) - now()).total_seconds()


def _offset() -> float:
    path = os.environ.get("ACCEPTED_TEST_CLOCK")
    if not path:
        return 0.0
    try:
        with open(path, encoding="ascii") as file:
            return float(file.read() or 0)
    except FileNotFoundError:
        return 0.0
