"""Signed addresses: who holds one may read what that one path shows until it expires, with or without a key.

The signature is the query parameter `signature`. A view that takes it is marked `@auth.signable`.
"""

import base64
import hashlib
import hmac

from jobs import clock
from jobs.artifacts import links
from jobs.settings import Settings

PARAMETER = "signature"


def sign(settings: Settings, path: str, expires_at: str) -> str:
    """The parameter's value for `GET path` until `expires_at` (wire time)."""
    return f"{expires_at}.{_mac(settings, path, expires_at)}"


def is_good(settings: Settings, path: str, signature: str) -> bool:
    """Whether it was made here for this path and has not expired."""
    expires_at, _, mac = signature.rpartition(".")
    if not signature.isascii() or not hmac.compare_digest(mac, _mac(settings, path, expires_at)):
        return False
    return clock.seconds_until(expires_at) > 0


def _mac(settings: Settings, path: str, expires_at: str) -> str:
    signed = hmac.digest(links.secret(settings), f"read {path} until {expires_at}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(signed).rstrip(b"=").decode()
