"""What the views of one app share, and how the outside addresses it."""

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from flask import current_app, has_request_context, request

from jobs.artifacts.store import Store
from jobs.db import Database
from jobs.doorbell import Doorbell
from jobs.settings import Settings
from jobs.targets import Guard
from jobs.web.hub import Hub
from jobs.work.job_type import Registry

_HOST = re.compile(r"(?:[\w.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_PREFIX = re.compile(r"(?:/[\w.~%-]+)*/?", re.ASCII)


@dataclass(frozen=True)
class Site:
    """The parts that `create_app` put together."""

    settings: Settings
    db: Database
    registry: Registry
    store: Store
    doorbell: Doorbell
    hub: Hub
    guard: Guard


def site() -> Site:
    """The parts of the app that serves this request."""
    return current_app.extensions["accepted"]


def base_url() -> str:
    """The URL under which this client reaches the server, without a slash at its end.

    The configured one; else what a trusted proxy's X-Forwarded headers say; never the Host header, which anyone can forge.
    """
    settings = site().settings
    if settings.public_url or not has_request_context() or not _from_trusted_proxy(settings.trusted_proxies):
        return settings.base_url
    host, scheme, prefix = (request.headers.get(f"X-Forwarded-{name}", default).split(",")[0].strip()
                            for name, default in (("Host", ""), ("Proto", "http"), ("Prefix", "")))
    if not _HOST.fullmatch(host) or scheme not in ("http", "https") or not _PREFIX.fullmatch(prefix):
        return settings.base_url  # a proxy may pass on what a client says
    return f"{scheme}://{host}{prefix.rstrip('/')}"


def _from_trusted_proxy(trusted: Iterable[str]) -> bool:
    try:
        peer = ipaddress.ip_address(request.remote_addr or "")
    except ValueError:
        return False
    return any(peer in ipaddress.ip_network(cidr, strict=False) for cidr in trusted)


class Mount:
    """WSGI middleware: serves the app under the path of the public URL, whether or not the proxy strips it."""

    def __init__(self, app: Callable, public_url: str):
        self._app = app
        self._prefix = urlsplit(public_url).path.rstrip("/")

    def __call__(self, environ: dict[str, Any], start_response: Callable) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if self._prefix:
            environ["SCRIPT_NAME"] = self._prefix
            if path == self._prefix or path.startswith(self._prefix + "/"):
                environ["PATH_INFO"] = path[len(self._prefix):] or "/"
        return self._app(environ, start_response)
