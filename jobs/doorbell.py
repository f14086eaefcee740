"""The doorbell: tells whoever listens that something changed, over Redis pub/sub.

A message carries no truth. Whoever hears it reads the database; whoever misses it reads the database a second later
anyway. So nothing here may slow or fail its caller: errors are swallowed and a full queue drops.
"""

import json
import os
import queue
import threading
from typing import Any

import redis

CHANNEL = "accepted:bell"
_TIMEOUT = 0.5


def connect(redis_url: str) -> redis.Redis:
    """A client that gives up after half a second and never retries, for uses that may not wait."""
    return redis.Redis.from_url(
        redis_url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT,
        retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0), health_check_interval=0)


class Doorbell:
    """Rings and listens. `ring` is for threaded processes, `publish` for single-threaded ones."""

    def __init__(self, redis_url: str):
        self._url = redis_url
        self._client: redis.Redis | None = None
        self._pending: queue.Queue = queue.Queue(maxsize=1000)
        self._lock = threading.Lock()
        self._ringer_pid: int | None = None

    def ring(self, message: dict[str, Any]) -> None:
        """Publish from a thread of our own; returns at once, drops the message when too many wait."""
        self._start_ringer()
        try:
            self._pending.put_nowait(message)
        except queue.Full:
            pass  # the listeners' own tick finds the change within a second

    def publish(self, message: dict[str, Any]) -> bool:
        """Publish now; at most half a second, False when Redis did not take it."""
        if not self._url:
            return False
        try:
            if self._client is None:
                self._client = connect(self._url)
            self._client.publish(CHANNEL, json.dumps(message))
            return True
        except (redis.RedisError, OSError):
            self._client = None
            return False

    def forget(self) -> None:
        """For a forked child: the connection of `publish` is its parent's."""
        self._client = None

    def works(self) -> bool:
        """Whether Redis answers; at most half a second."""
        try:
            return bool(self._url) and bool(connect(self._url).ping())
        except (redis.RedisError, OSError):
            return False

    def listen(self) -> "Bell":
        """A subscription of its own; it reconnects by itself."""
        return Bell(self._url)

    def _start_ringer(self) -> None:
        if self._ringer_pid == os.getpid():
            return
        with self._lock:
            if self._ringer_pid != os.getpid():  # threads do not survive a fork; each process starts its own
                self._ringer_pid = os.getpid()
                self._pending = queue.Queue(maxsize=1000)
                self._client = None
                threading.Thread(target=self._ring_for_ever, name="doorbell", daemon=True).start()

    def _ring_for_ever(self) -> None:
        while True:
            self.publish(self._pending.get())


class Bell:
    """One subscription to the doorbell."""

    def __init__(self, redis_url: str):
        self._url = redis_url
        self._subscription: redis.client.PubSub | None = None

    def get(self, timeout: float) -> dict[str, Any] | None:
        """The next message, or None after `timeout` seconds.

        `{"resubscribed": true}` is answered after every (re)connection: what rang meanwhile was missed.
        """
        if not self._url:
            threading.Event().wait(timeout)
            return None
        try:
            if self._subscription is None:
                subscription = connect(self._url).pubsub(ignore_subscribe_messages=True)
                subscription.subscribe(CHANNEL)
                self._subscription = subscription
                return {"resubscribed": True}
            message = self._subscription.get_message(timeout=timeout)
            return json.loads(message["data"]) if message else None
        except (redis.RedisError, OSError, ValueError):
            self.close()
            threading.Event().wait(min(timeout, 0.2))
            return None

    def fileno(self) -> int | None:
        """The descriptor to select on, or None while not connected."""
        connection = self._subscription.connection if self._subscription else None
        sock = getattr(connection, "_sock", None) if connection else None
        return sock.fileno() if sock else None

    def close(self) -> None:
        """Let the connection go; the next `get` makes a new one."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            try:
                subscription.close()
            except (redis.RedisError, OSError):
                pass
