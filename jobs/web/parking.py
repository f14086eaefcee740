"""A response that comes later, between the views and the WSGI server.

`LiveWorker` takes a `Parked` body off its thread and gives the socket to the hub. Any other server iterates it.
"""

from collections.abc import Iterable, Iterator

from werkzeug.wrappers import Response

from jobs.web.hub import Hub
from jobs.web.seats import QueueSeat
from jobs.web.watchers import Watcher

LIVE = "accepted.live"
"""The key in the WSGI environment by which a server says that it parks."""


class Parked:
    """The body of a response that the hub will deliver; `streaming` if status and headers are known already."""

    def __init__(self, hub: Hub, watcher: Watcher):
        self.hub = hub
        self.watcher = watcher
        self.streaming = watcher.streaming
        self._seat: QueueSeat | None = None

    def __iter__(self) -> Iterator[bytes]:
        self._seat = QueueSeat(self.watcher)
        self.hub.join(self._seat)
        return iter(self._seat.take, None)

    def close(self) -> None:
        """The server has finished iterating, or the client went away."""
        if self._seat is not None:
            self.hub.dismiss(self._seat)


def complete(answer: Response, added: Iterable[tuple[str, str]]) -> tuple[str, list[tuple[str, str]], bytes]:
    """Status, headers and body of an answer, with the headers that the app's hooks `added` to the response it stands for.

    The answer's own headers win; `Vary` is the union.
    """
    body = answer.get_data()
    headers = answer.get_wsgi_headers({})
    for name, value in added:
        if name.lower() == "vary":
            known = {part.strip().lower() for part in headers.get("Vary", "").split(",")}
            missing = [part.strip() for part in value.split(",") if part.strip().lower() not in known]
            headers["Vary"] = ", ".join([*filter(None, [headers.get("Vary")]), *missing])
        elif name.lower() == "set-cookie" or name not in headers:
            headers.add(name, value)
    return answer.status, headers.to_wsgi_list(), body
