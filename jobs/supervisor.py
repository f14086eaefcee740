"""Keep a few child processes alive: one thread, one loop, through which output, signals, deaths and timers all pass."""

import contextlib
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from jobs import clock, leash
from jobs.logs import routine

_SETTLED = 10       # seconds after which a part counts as having come up
_DEATHS = 5         # deaths in a row, none of a settled part, after which it cannot live
_LONGEST_LINE = 65536


class Part:
    """One child process that should always run.

    `quiet`: nothing it says is worth a line in everyday use. `last`: it is stopped when all others have gone.
    """

    def __init__(self, name: str, command: list[str], quiet: bool = False, last: bool = False,
                 pass_fds: tuple[int, ...] = ()):
        self.name, self.command, self.quiet, self.last, self.pass_fds = name, command, quiet, last, pass_fds
        self.process: subprocess.Popen | None = None
        self.tail: deque[str] = deque(maxlen=20)        # what it said last
        self.deaths = 0         # in a row
        self.due = 0.0          # when to start it again, on the monotonic clock
        self.asked = False      # whether it was asked to end

    def start(self, environment: Mapping[str, str]) -> None:
        """Start the process in a session of its own, tied to ours, and marked."""
        self._rest, self._began, self.mark = b"", clock.monotonic(), leash.new_mark()
        supervisor = os.getpid()

        def leashed() -> None:      # safe to run in the child: this process has one thread
            leash.tie_to_parent(supervisor)
            leash.bear(self.mark)

        self.process = subprocess.Popen(
            self.command, env=environment, pass_fds=self.pass_fds, start_new_session=True, preexec_fn=leashed,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        os.set_blocking(self.process.stdout.fileno(), False)

    def ask_to_end(self) -> None:
        """SIGTERM, once."""
        if self.process and not self.asked:
            self.asked = True
            self.process.send_signal(signal.SIGTERM)

    def read(self) -> list[str] | None:
        """The lines that have come in; None when nothing more has, or ever will."""
        try:
            chunk = os.read(self.process.stdout.fileno(), _LONGEST_LINE)
        except BlockingIOError:
            return None
        if not chunk:
            return None
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        return self._said(lines)

    def bury(self, code: int) -> tuple[str, list[str]]:
        """Note the death, plan the next start. Returns what it died of, in words, and its lines not yet read."""
        lines = []
        while (more := self.read()) is not None:
            lines += more
        lines += self._said([self._rest] if self._rest else [])
        self.process.stdout.close()
        self.process = None
        if clock.monotonic() - self._began > _SETTLED:
            self.deaths = 0
        elif code != -signal.SIGKILL:       # somebody, or a system short of memory, killed it: no fault of its own
            self.deaths += 1
        self.due = clock.monotonic() + min(0.1 * 2 ** self.deaths, 5)
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}", lines

    def _said(self, lines: list[bytes]) -> list[str]:
        texts = [line.decode(errors="replace").rstrip() for line in lines]
        self.tail.extend(texts)
        return texts


class Supervisor:
    """Runs the parts until a signal comes or one of them cannot live.

    `drain` bounds how long the parts may take to stop, in seconds. `ticks` are called about once a second.
    """

    def __init__(self, environment: Mapping[str, str], drain: float, verbose: bool = False):
        self.environment, self.drain, self.verbose = environment, drain, verbose
        self.parts: list[Part] = []
        self.ticks: list[Callable[[], None]] = []
        self.failure: str | None = None
        self._watchdog = leash.Watchdog()
        self._selector = selectors.DefaultSelector()
        self._signals: deque[int] = deque()
        self._first_signal: int | None = None
        self._kill_at: float | None = None      # set while stopping: when whatever still runs is killed
        self._dropped = 0
        self._hear_signals()

    def add(self, part: Part) -> None:
        """Take a part in and start it at once."""
        self.parts.append(part)
        self._start(part)

    def when_readable(self, source: socket.socket, callback: Callable[[], None]) -> None:
        """Call back, once, when there is something to read."""
        def once():
            self._selector.unregister(source)
            callback()
        self._selector.register(source, selectors.EVENT_READ, once)

    @property
    def stopping(self) -> bool:
        """Whether the end has begun."""
        return self._kill_at is not None

    def run(self) -> int:
        """Until all has ended. 0 after SIGTERM, 130 after Ctrl-C, 1 when a part could not live."""
        next_tick = clock.monotonic()
        while not self.stopping or self._running():
            impatient = self.stopping or len(self._running()) < len(self.parts)
            for key, _ in self._selector.select(0.05 if impatient else 0.5):
                key.data()
            while self._signals:
                self._heed(self._signals.popleft())
            for part in self.parts:
                self._look_after(part)
            if not self.stopping and clock.monotonic() >= next_tick:
                for tick in self.ticks:
                    tick()
                next_tick = clock.monotonic() + 1
        self._watchdog.close()
        if self.failure:
            return 1
        return 130 if self._first_signal == signal.SIGINT else 0

    def stop(self, failure: str | None = None) -> None:
        """Ask all parts to end, those marked `last` after the rest. Asked again: kill."""
        self.failure = self.failure or failure
        self._kill_at = clock.monotonic() + (0 if self.stopping else self.drain)

    def say(self, name: str, text: str) -> None:
        """One line on the terminal. A terminal that stands still costs lines, but holds nothing up."""
        if not select.select([], [sys.stderr], [], 0)[1]:
            self._dropped += 1
            return
        if self._dropped:
            text, self._dropped = f"({self._dropped} lines were dropped here) {text}", 0
        with contextlib.suppress(OSError):
            print(f"{time.strftime('%H:%M:%S')} {name:<10} {text}", file=sys.stderr, flush=True)

    def _running(self) -> list[Part]:
        return [part for part in self.parts if part.process]

    def _hear_signals(self) -> None:
        """Signals wake the loop, which heeds them at a safe place."""
        ours, kernels = socket.socketpair()
        for end in (ours, kernels):
            end.setblocking(False)
        signal.set_wakeup_fd(kernels.fileno(), warn_on_full_buffer=False)
        self._wake = kernels
        self._selector.register(ours, selectors.EVENT_READ, lambda: ours.recv(4096))
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, lambda number, frame: self._signals.append(number))
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def _heed(self, signum: int) -> None:
        if not self.stopping:
            self._first_signal = signum
            self.say("stopping", "running jobs may end or go back to the queue; once more stops at once")
        self.stop()

    def _start(self, part: Part) -> None:
        part.start(self.environment)
        self._watchdog.guard(part.process.pid, part.mark)
        self._selector.register(part.process.stdout, selectors.EVENT_READ, partial(self._pass_on, part))

    def _pass_on(self, part: Part) -> None:
        lines = part.read()
        if lines is None:
            self._selector.unregister(part.process.stdout)
        self._show(part, lines or [])

    def _show(self, part: Part, lines: list[str]) -> None:
        for line in lines:
            if self.verbose or not (part.quiet or routine(line)):
                self.say(part.name, line)

    def _look_after(self, part: Part) -> None:
        if part.process and (code := part.process.poll()) is not None:
            self._bury(part, code)
        if not self.stopping:
            if not part.process and clock.monotonic() >= part.due:
                self._start(part)
        elif part.process:
            if not part.last or all(other.last for other in self._running()):
                part.ask_to_end()
            if clock.monotonic() >= self._kill_at + (2 if part.last else 0):
                leash.end_all({part.process.pid: part.mark})

    def _bury(self, part: Part, code: int) -> None:
        pid = part.process.pid
        leash.end_all({pid: part.mark})       # what it left behind: its own children, and theirs
        with contextlib.suppress(KeyError):
            self._selector.unregister(part.process.stdout)
        cause, lines = part.bury(code)
        self._watchdog.release(pid)
        self._show(part, lines)
        if self.stopping:
            return
        if part.deaths < _DEATHS:
            self.say(part.name, f"ended with {cause}; it is started again")
            return
        tail = "\n".join(f"    {line}" for line in part.tail)
        self.stop(f"{part.name} cannot live: {_DEATHS} times in a row it ended soon after its start, last with {cause}."
                  f" It said:\n{tail}")
