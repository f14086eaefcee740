"""Download a file from outside and keep it as an artifact."""

from typing import Any

from marshmallow import fields, validate

from jobs import Context, Problem, Retry, job_type
from jobs.artifacts import names

PAYLOAD = {
    "url": fields.Str(required=True, validate=validate.Length(1, 8000), metadata={
        "source": True, "format": "uri", "title": "Address", "description": "Where to fetch it, by http or https."}),
    "sha256": fields.Str(load_default=None, allow_none=True, validate=validate.Regexp("^[0-9a-fA-F]{64}$"), metadata={
        "title": "SHA-256", "description": "What the file must hash to, in hex. Another file fails the job."}),
    "name": fields.Str(load_default=None, allow_none=True, validate=validate.Length(1, 200), metadata={
        "title": "Name", "description": "What to call it; else as the source does."}),
}


# The line to the outside is shared: more at once would make none of them quicker.
@job_type("url.fetch", title="Fetch a file", payload=PAYLOAD, max_attempts=5, concurrency=4)
def fetch_url(job: Context, url: str, sha256: str | None, name: str | None) -> dict[str, Any]:
    """Download a file, going on from where an earlier attempt broke off, and keep it with its SHA-256."""
    job.stage("fetching")
    path, got = job.fetch_on(url)
    if sha256 and got.sha256 != sha256.lower():
        differs = Problem("source-differs", f"What came has {got.size} bytes and the SHA-256 {got.sha256}.")
        if got.resumed:
            raise Retry(0, problem=differs)     # two versions may have been joined; all of it anew, then
        raise differs
    name = names.clean(name or got.name)
    out = job.artifact_of(path, name, got.media_type, got.sha256)
    return {"name": name, "mediaType": got.media_type, "size": got.size, "sha256": got.sha256,
            "artifact": out.href, "download_url": out.url, "expires_at": out.expires_at}
