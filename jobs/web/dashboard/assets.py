"""Style sheets and scripts under an address that names their content, so that browsers may keep them for ever.

One revision stands for the whole folder and is part of the path: relative imports between the files inherit it.
"""

import gzip
import hashlib
from functools import lru_cache
from pathlib import Path

from flask import Response, request, send_from_directory, url_for

FOLDER = Path(__file__).parents[3] / "static"
_PAGES = FOLDER.with_name("templates")
_FOR_EVER = "public, max-age=31536000, immutable"
_AROUND = 56.5
_RING = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><circle cx="12" cy="12" r="9" fill="#fff" stroke="#b9c4d4" '
         'stroke-width="5"/><circle cx="12" cy="12" r="9" fill="none" stroke="#2563c9" stroke-width="5" '
         'stroke-dasharray="{length} {around}" transform="rotate(-90 12 12)"/></svg>')


@lru_cache(maxsize=1)
def revision() -> str:
    """A digest of every file in the folder."""
    return _digest(FOLDER)


@lru_cache(maxsize=1)
def edition() -> str:
    """A digest of all that a page is made of: one that is left open is loaded anew when the server has another."""
    return f"{revision()}-{_digest(_PAGES)}"


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def asset(name: str) -> str:
    """The address of a file in `static/`."""
    return url_for("ui.asset", wanted=revision(), name=name)


def serve(wanted: str, name: str) -> Response:
    """One file. A page made before an update asks for an older revision: it gets the present file, not to be kept."""
    response = send_from_directory(FOLDER, name)
    response.headers["Cache-Control"] = _FOR_EVER if wanted == revision() else "no-cache"
    response.vary.add("Accept-Encoding")
    if response.status_code == 200 and request.accept_encodings["gzip"]:    # of pages themselves a secret could be guessed
        response.direct_passthrough = False
        response.set_data(_packed(name, revision()))
        response.headers["Content-Encoding"] = "gzip"
        response.headers["ETag"] = f'"{revision()}-gzip"'
    return response


@lru_cache(maxsize=50)
def _packed(name: str, _: str) -> bytes:
    return gzip.compress(Path(FOLDER, name).read_bytes(), mtime=0)


def progress_icon(percent: int) -> Response:
    """The icon of a tab whose job has come this far: a ring that closes."""
    response = Response(_RING.format(length=f"{percent * _AROUND / 100:.1f}", around=_AROUND), content_type="image/svg+xml")
    response.headers["Cache-Control"] = _FOR_EVER
    return response
