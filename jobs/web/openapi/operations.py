"""Every operation of the native API: one row each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.web.openapi.shapes import header, json_body, query

WAIT = query("wait", "number", "Seconds to hold, at most 50.")
LIMIT = query("limit", "integer", "0 means the default; too large a one is cut.")
CURSOR = query("cursor", description="Where the page before ended; opaque.")
KEY = header("Idempotency-Key", "The same key and body make one job.")
IF_NONE_MATCH = header("If-None-Match")
IF_MATCH = header("If-Match", "412 when the job's version has moved.")
_FILTER = tuple(query(name) for name in ("status", "type", "tag", "q", "owner", "ids", "createdAfter", "createdBefore", "updatedAfter"))
_REF = {name: {"$ref": f"#/components/schemas/{name}"} for name in ("Submission", "Options", "Selection")}
_READ = (401, 404, 410, 429)
_STEER = (400, 401, 403, 404, 409, 410, 412, 415, 422, 429, 503, 507)
_SUBMIT = (400, 401, 403, 409, 410, 413, 415, 422, 424, 429, 503, 507)


@dataclass(frozen=True)
class Operation:
    """A method on a path: its answers by status (component, media type or None), and the problems it may end in."""

    method: str
    path: str
    name: str
    summary: str
    tag: str
    answers: Mapping[int, str | None]
    problems: tuple[int, ...] = ()
    parameters: tuple[dict[str, Any], ...] = field(default=())
    body: dict[str, Any] | None = None
    public: bool = False
    calls_back: bool = False

    @property
    def statuses(self) -> list[int]:
        """Every status that it answers."""
        return sorted({*self.answers, *self.problems, 400})


def _get(path: str, name: str, summary: str, tag: str, answers: Mapping[int, str | None], problems: tuple[int, ...] = _READ,
         *parameters: dict[str, Any], public: bool = False) -> Operation:
    return Operation("get", path, name, summary, tag, answers, problems, parameters, public=public)


OPERATIONS = (
    Operation("post", "/v1/jobs", "submitJob", "Submit a job", "Submit", {200: "Anything", 202: "Job", 204: None}, _SUBMIT,
              (KEY, WAIT, header("Prefer")), json_body(_REF["Submission"]), calls_back=True),
    _get("/v1/jobs", "listJobs", "Jobs, newest first", "Watch", {200: "Jobs"}, (401, 429), *_FILTER, LIMIT, CURSOR),
    _get("/v1/jobs/changes", "listChanges", "What changed since a cursor, in commit order", "Watch", {200: "Changes"}, (401, 410, 429, 503),
         query("since", description="nextCursor of the page before; without it, a cursor for now."), LIMIT, WAIT),
    _get("/v1/jobs/{id}", "getJob", "A job, whatever its fate", "Watch", {200: "Job", 304: None}, (*_READ, 503), WAIT, IF_NONE_MATCH,
         header("Prefer")),
    _get("/v1/jobs/{id}/result", "getResult", "What a synchronous answer would have been", "Watch",
         {200: "Anything", 202: "Job", 204: None, 303: None}, (*_READ, 409, 413, 415, 422, 424), query("redirect", "boolean")),
    _get("/v1/jobs/{id}/events", "streamJob", "Server-sent events: progress, then done", "Watch", {200: "text/event-stream", 204: None},
         _READ, header("Last-Event-ID")),
    _get("/v1/events", "streamJobs", "Server-sent events of all jobs", "Watch", {200: "text/event-stream"}, (401, 429),
         header("Last-Event-ID")),
    _get("/v1/jobs/{id}/logs", "getLogs", "Lines that the job wrote", "Watch", {200: "Lines text/plain text/event-stream"}, _READ, query("after", "integer"), LIMIT,
         query("follow", "boolean")),
    _get("/v1/jobs/{id}/attempts", "getAttempts", "Every attempt at the job", "Watch", {200: "Attempts"}),
    _get("/v1/jobs/{id}/artifacts", "getArtifacts", "Files that the job left", "Watch", {200: "Artifacts"}),
    Operation("post", "/v1/jobs/{id}:cancel", "cancelJob", "Cancel", "Steer", {200: "Job", 202: "Job"}, _STEER, (IF_MATCH,)),
    Operation("delete", "/v1/jobs/{id}", "deleteJob", "Cancel; never deletes a result", "Steer", {200: "Job", 202: "Job"}, _STEER, (IF_MATCH,)),
    Operation("post", "/v1/jobs/{id}:retry", "retryJob", "Do the same again, as a new job", "Steer",
              {200: "Anything", 202: "Job", 204: None}, (*_STEER, 413, 424), (IF_MATCH, KEY, WAIT, header("Prefer")),
              json_body(_REF["Options"], required=False), calls_back=True),
    Operation("post", "/v1/jobs/{id}:purge", "purgeJob", "Forget an ended job", "Steer", {204: None}, _STEER, (IF_MATCH,)),
    *(Operation("post", f"/v1/jobs:{verb}", f"{verb}Jobs", f"{verb.capitalize()} many: a filter, ids, or all", "Steer", {200: "Bulk"},
                (401, 403, 413, 415, 422, 429, 503, 507), body=json_body(_REF["Selection"])) for verb in ("cancel", "retry", "purge")),
    Operation("post", "/v1/files", "uploadFile", "Upload a file that jobs can use", "Files", {201: "Artifact"},
              (401, 403, 413, 415, 422, 429, 503, 507), (query("name"),),
              {"required": True, "content": {"application/octet-stream": {"schema": {}}, "multipart/form-data": {"schema": {
                  "type": "object", "properties": {"file": {"type": "string", "contentMediaType": "application/octet-stream"}}}}}}),
    _get("/v1/artifacts/{id}", "getArtifact", "An artifact's record", "Files", {200: "Artifact", 304: None}),
    _get("/v1/artifacts/{id}/content", "getContent", "An artifact's bytes", "Files",
         {200: "application/octet-stream", 206: "application/octet-stream", 304: None}, (*_READ, 416), header("Range"), IF_NONE_MATCH),
    _get("/v1/artifacts/{id}/content/{path}", "getFolderFile", "A file of a folder", "Files",
         {200: "application/octet-stream", 206: "application/octet-stream", 304: None}, (*_READ, 416), header("Range"), IF_NONE_MATCH),
    _get("/v1/artifacts/{id}/signed/{token}", "getSigned", "An artifact by a signed link", "Files",
         {200: "application/octet-stream", 206: "application/octet-stream", 304: None}, (404, 410, 416), header("Range"), IF_NONE_MATCH,
         public=True),
    _get("/v1/artifacts/{id}/signed/{token}/{path}", "getSignedFile", "A file by a signed link; its neighbours have the same", "Files",
         {200: "application/octet-stream", 206: "application/octet-stream", 304: None}, (404, 410, 416), header("Range"), IF_NONE_MATCH,
         public=True),
    Operation("post", "/v1/artifacts/{id}:sign", "signArtifact", "A fresh signed link", "Files", {201: "Anything"}, (401, 403, 404, 429)),
    Operation("delete", "/v1/artifacts/{id}", "deleteArtifact", "Take an upload back", "Files", {204: None},
              (401, 403, 404, 409, 429, 503, 507)),
    _get("/v1/job-types", "listJobTypes", "What this server can do", "About", {200: "JobTypes"}, (401, 429)),
    _get("/v1/keys", "listKeys", "All keys (admin)", "Keys", {200: "Keys"}, (401, 403, 429)),
    _get("/v1/keys/{id}", "getKey", "One key (admin)", "Keys", {200: "Key"}, (401, 403, 404, 429)),
    Operation("post", "/v1/keys", "makeKey", "Make a key (admin)", "Keys", {201: "Key"}, (401, 403, 413, 415, 422, 429, 503, 507),
              body=json_body({"type": "object"})),
    _get("/v1/keys/{id}", "getKey", "One key, without the key itself (admin)", "Keys", {200: "Key"}, (401, 403, 404, 429)),
    Operation("delete", "/v1/keys/{id}", "revokeKey", "Revoke a key (admin)", "Keys", {204: None}, (401, 403, 404, 429, 503, 507)),
    _get("/v1/audit", "listActs", "Who did what, newest first (admin)", "Keys", {200: "Acts"}, (401, 403, 429),
         *(query(name) for name in ("act", "actor", "subject", "owner")), LIMIT, CURSOR),
    _get("/metrics", "getMetrics", "Figures for Prometheus (read, admin)", "About", {200: "text/plain"}, (401, 403, 429)),
    _get("/openapi.json", "getOpenapi", "This document", "About", {200: "Anything"}, (), public=True),
    _get("/livez", "livez", "The process answers", "About", {200: "Health"}, (), public=True),
    _get("/readyz", "readyz", "Jobs can be accepted", "About", {200: "Health"}, (503,), public=True),
)


def for_collection(collection: str, submission: dict[str, Any]) -> tuple[Operation, ...]:
    """The operations of one collection; `submission` is the body that makes a member."""
    path, name = f"/v1/{collection}", "".join(word.capitalize() for word in collection.split("-"))
    return (
        Operation("post", path, f"submitTo{name}", "Submit a job that makes a member", collection,
                  {200: "Anything", 202: "Resource", 204: None}, _SUBMIT, (KEY, WAIT, header("Prefer")), json_body(submission),
                  calls_back=True),
        _get(path, f"list{name}", "Members, newest first", collection, {200: "Anything"}, (401, 429), query("status"),
             query("createdAfter"), LIMIT, CURSOR),
        _get(f"{path}/{{id}}", f"get{name}", "A member", collection, {200: "Resource", 304: None}, _READ, IF_NONE_MATCH),
        _get(f"{path}/{{id}}/{{path}}", f"getPartOf{name}", "A named part of a member, or one of its files", collection,
             {200: "application/octet-stream", 206: "application/octet-stream", 304: None}, (*_READ, 416), header("Range"),
             IF_NONE_MATCH),
        Operation("delete", f"{path}/{{id}}", f"delete{name}", "Delete a member and its files", collection, {204: None},
                  (401, 403, 404, 409, 410, 429, 503, 507)),
    )
