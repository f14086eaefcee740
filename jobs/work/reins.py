"""The worker's hold on its horse: forks it, speaks and listens to it, and puts it down with everything it started."""

import contextlib
import os
import select
import time
from collections.abc import Callable

from jobs.leash import tie_to_parent
from jobs.work import process
from jobs.work.channel import Channel, Closed


class Reins:
    """One horse, from its fork to its end."""

    def __init__(self, ride: Callable[[Channel], None]):
        """Fork; `ride(channel)` runs in the new process and never returns."""
        worker = os.getpid()
        self._channel, theirs = Channel.pair()
        self.pid = os.fork()
        if not self.pid:
            try:
                process.own_group()
                tie_to_parent(worker)
                self._channel.close()
                ride(theirs)
            finally:
                os._exit(1)
        process.own_group(self.pid)
        theirs.close()
        self._process = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        self._ended = False

    def say(self, **order: object) -> None:
        """Send an order; one that comes too late is no error, `alive` tells."""
        with contextlib.suppress(Closed):
            self._channel.send(**order)

    def listen(self, timeout: float) -> list[dict]:
        """What the horse has said, waiting up to `timeout` seconds for a word or its death."""
        watched = [self._channel] + ([self._process] if self._process is not None else [])
        select.select(watched, [], [], timeout)
        words = []
        with contextlib.suppress(Closed):
            while (word := self._channel.receive()) is not None:
                words.append(word)
        return words

    def alive(self) -> bool:
        """Whether the process still runs."""
        if not self._ended:
            self._ended = os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        return not self._ended

    def put_down(self) -> None:
        """Kill the horse and every process that it started, in whatever session they are; returns when all are gone.

        Its orphans come to us, the subreaper, once it is dead; that is how even they are found.
        """
        process.kill_group(self.pid)
        while self.alive():
            process.kill(self.pid)
            time.sleep(0.001)
        process.end_children()
        self._channel.close()
        if self._process is not None:
            os.close(self._process)
            self._process = None
