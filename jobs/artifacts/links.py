"""Signed links: who holds one may read that one artifact until it expires, with or without a key.

The signature stands in the path, so that what a playlist names beside itself inherits it.
"""

import base64
import hashlib
import hmac
import os
import secrets
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote

from jobs import clock
from jobs.settings import Settings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def secret(settings: Settings) -> bytes:
    """What signs links and the dashboard's cookie: the setting, else made at first use and kept beside the database."""
    return settings.secret_key.encode() or _kept(settings.data_dir / "secret.key")


def mint(key: bytes, artifact_id: int, expires_at: str) -> str:
    """A token for one artifact until `expires_at` (wire time)."""
    expiry = str((clock.parse(expires_at) - _EPOCH) // timedelta(milliseconds=1))
    return f"{expiry}.{_sign(key, artifact_id, expiry)}"


def verify(key: bytes, artifact_id: int, token: str) -> str | None:
    """Until when (wire time, maybe past) an authentic token is good; None when it is not ours or another artifact's."""
    expiry, _, signature = token.partition(".")
    if not (expiry.isascii() and expiry.isdigit()) or not signature.isascii():
        return None
    if not hmac.compare_digest(signature, _sign(key, artifact_id, expiry)):
        return None
    return clock.wire(_EPOCH + timedelta(milliseconds=int(expiry)))


def url(settings: Settings, artifact_id: int, path: str, expires_at: str, base_url: str | None = None) -> str:
    """The absolute link; `path` is the file's name, or a path inside a folder."""
    token = mint(secret(settings), artifact_id, expires_at)
    return f"{base_url or settings.base_url}/v1/artifacts/{artifact_id}/signed/{token}/{quote(path)}"


def path_of(link: str) -> str:
    """What stands behind the token in a link that was made here."""
    return unquote(link.partition("/signed/")[2].partition("/")[2])


def _sign(key: bytes, artifact_id: int, expiry: str) -> str:
    signed = hmac.digest(key, f"artifact {artifact_id} until {expiry}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(signed).rstrip(b"=").decode()


@lru_cache
def _kept(path: Path) -> bytes:
    """The file's content; of several processes that find none, exactly one makes it."""
    while True:
        try:
            kept = path.read_bytes().strip()
            if kept:
                return kept
            path.unlink()  # cut short by a full disk or a crash long ago; nothing was signed with it
        except FileNotFoundError:
            pass
        _make(path)


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(secrets.token_hex(32).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(fresh, path)  # unlike a rename, this never replaces what another process has made
    except FileExistsError:
        pass
    finally:
        fresh.unlink(missing_ok=True)
