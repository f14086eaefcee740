"""The same job by program: what a developer pastes to submit it again and to wait for its end."""

import json
import pprint
import shlex
from dataclasses import dataclass

from jobs.core.states import Priority
from jobs.db import Row

_LONGEST = 4_000  # characters of payload beyond which only waiting is shown


@dataclass(frozen=True)
class Snippet:
    """`language` as people call it, `code` ready to be pasted; the key is expected in the environment."""

    language: str
    code: str


def of(row: Row, base_url: str) -> list[Snippet]:
    """The job in curl, Python and JavaScript."""
    body = _body(row)
    if body is None:
        return [Snippet("curl", _WATCH_CURL.format(url=f"{base_url}/v1/jobs/{row.id}"))]
    as_json, shell = _json(body, indent=2), _json(body)
    as_python = pprint.pformat(body, width=68, sort_dicts=False)
    url = f"{base_url}/v1/jobs"
    return [
        Snippet("curl", _CURL.format(url=url, body=shlex.quote(shell))),
        Snippet("Python", _PYTHON.format(base=base_url, body=as_python)),
        Snippet("JavaScript", _JAVASCRIPT.format(base=base_url, body=as_json))]


def _body(row: Row) -> dict | None:
    """What was submitted, without what is so by default; None when it is too long to be pasted."""
    if row.payload is None or len(row.payload) > _LONGEST:
        return None
    try:
        body = {"type": row.type, "payload": json.loads(row.payload)}
    except (ValueError, RecursionError):
        return None
    if row.priority != Priority.NORMAL.rank:
        body["priority"] = str(Priority.of(row.priority))
    tags = json.loads(row.tags)
    return body | ({"tags": tags} if tags else {})


def _json(body: dict, indent: int | None = None) -> str:
    """JSON in which what cannot be seen, or would turn the reading direction around, is escaped."""
    text = json.dumps(body, ensure_ascii=False, indent=indent)
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)


_WATCH_CURL = """curl -H "Authorization: Bearer $ACCEPTED_KEY" \\
  '{url}?wait=50'"""

_CURL = """curl -X POST {url} \\
  -H "Authorization: Bearer $ACCEPTED_KEY" \\
  -H "Content-Type: application/json" \\
  -H "Prefer: wait=50" \\
  -d {body}"""

_PYTHON = """import os, requests

base = "{base}"
client = requests.Session()
client.headers["Authorization"] = "Bearer " + os.environ["ACCEPTED_KEY"]

job = client.post(base + "/v1/jobs", json={body}).json()
while job["status"] in ("queued", "running"):
    job = client.get(base + "/v1/jobs/" + job["id"], params={{"wait": 50}}).json()
print(job["status"], job.get("result"), job.get("error"))"""

_JAVASCRIPT = """const base = "{base}";
const headers = {{
  Authorization: "Bearer " + process.env.ACCEPTED_KEY,
  "Content-Type": "application/json",
}};

let job = await (await fetch(base + "/v1/jobs", {{
  method: "POST", headers, body: JSON.stringify({body}),
}})).json();
while (["queued", "running"].includes(job.status))
  job = await (await fetch(base + "/v1/jobs/" + job.id + "?wait=50", {{headers}})).json();
console.log(job.status, job.result, job.error);"""
