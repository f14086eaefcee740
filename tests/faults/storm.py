"""A storm: clients submit while processes are killed, stopped and emptied at random, all of it drawn from one seed."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import redis
import requests

from jobs import settings
from tests.stack import Stack, descendants

TYPES = Path(__file__).parent / "types"
VICTIMS = ("web", "web process", "dispatcher", "worker", "worker", "horse", "horse", "redis")


class Storm:
    """`Storm(stack, seed, notes).rage(seconds, jobs)`; then `.promised` holds the ids of every 202 that a client has got."""

    def __init__(self, stack: Stack, seed: int, notes: Path):
        self._stack, self._notes = stack, notes
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self.promised: set[int] = set()
        self.blows: list[str] = []

    def rage(self, seconds: float, jobs: int, flushes: int = 2) -> None:
        """Submit `jobs` over about `seconds` while blows fall; ends when each submission has its 202."""
        rhythm = random.Random(self._chance.random())
        clients = [threading.Thread(target=self._submit, args=(rhythm.random(), number, jobs // 2, seconds)) for number in range(2)]
        for client in clients:
            client.start()
        began = time.monotonic()
        flush_at = [began + seconds * (place + 1) / (flushes + 1) for place in range(flushes)]
        while (now := time.monotonic()) < began + seconds:
            if flush_at and now >= flush_at[0]:
                flush_at.pop(0)
                self._flush()
            self._strike()
            self._over.wait(self._chance.uniform(0.1, 0.9))
        for client in clients:
            client.join(120)
            assert not client.is_alive(), f"a client got no 202\n{self._stack.output()[-3000:]}"

    # Clients

    def _submit(self, seed: float, client: int, jobs: int, seconds: float) -> None:
        """As a good client does: the same key again until there is an answer; cancels some of its jobs."""
        chance, key = random.Random(seed), f"{seed}-{client}".replace("0.", "")
        for number in range(jobs):
            body = {"type": "test.line", "payload": {"path": str(self._notes), "seconds": chance.choice((0, 0, 0.05, 0.3))},
                    "maxAttempts": chance.choice((1, 3, 10)), "priority": chance.choice(("high", "normal", "low"))}
            job = self._persist("POST", "/v1/jobs", 202, json=body, headers={"Idempotency-Key": f"{key}-{number}"})
            self.promised.add(int(job["id"]))
            if chance.random() < 0.1:
                self._persist("POST", f"/v1/jobs/{job['id']}:cancel", None)
            time.sleep(chance.uniform(0, 1.2 * seconds / jobs))

    def _persist(self, method: str, path: str, wanted: int | None, **options) -> dict:
        options["headers"] = options.get("headers", {}) | {"Authorization": f"Bearer {self._stack.key}"}
        while True:
            try:
                answer = requests.request(method, self._stack.url + path, timeout=30, **options)
            except requests.RequestException:
                time.sleep(0.05)
                continue
            if answer.status_code == wanted or wanted is None and answer.status_code < 500:
                return answer.json()
            assert answer.status_code == 503, answer.text
            time.sleep(0.05)

    # Blows

    def _strike(self) -> None:
        victim, pause = self._chance.choice(VICTIMS), self._chance.random() < 0.2
        pids = self._pids(victim)
        if not pids:
            return
        pid = self._chance.choice(pids)
        self.blows.append(f"{'stop' if pause else 'kill'} {victim}")
        if not pause:
            _signal(pid, signal.SIGKILL)
        elif _signal(pid, signal.SIGSTOP):
            self._over.wait(self._chance.uniform(0.1, 0.6))
            _signal(pid, signal.SIGCONT)

    def _pids(self, victim: str) -> list[int]:
        if victim in ("web process", "horse"):
            parents = self._stack.pids({"web process": "web", "horse": "worker"}[victim])
            return sorted(child for parent in parents for child in descendants(parent))
        return self._stack.pids(victim)

    def _flush(self) -> None:
        self.blows.append("flush redis")
        path = settings.load(self._stack.environment).data_dir / "redis.sock"
        try:
            redis.Redis(unix_socket_path=str(path), socket_timeout=2).flushall()
        except redis.RedisError:
            pass    # just killed: that empties it, too


def _signal(pid: int, signum: int) -> bool:
    try:
        os.kill(pid, signum)
        return True
    except ProcessLookupError:
        return False
