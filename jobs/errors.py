"""What can go wrong, in the words that clients read (RFC 9457), and the registry of every kind of problem.

Handlers of job types raise `Problem` (final) or `Retry` (another attempt later); the web tier turns every error into a
problem document. The registry feeds the pages under /problems, the docs and the tests.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """One kind of problem: `type` is `{public url}/problems/{slug}`, `title` never changes, `help` says what to do."""

    slug: str
    status: int
    title: str
    help: str


_KINDS = (
    # The request
    Kind("bad-request", 400, "The request cannot be read", "Check the form of the request against the documentation."),
    Kind("malformed-json", 400, "The body is not valid JSON", "Send one JSON document in UTF-8: no duplicate keys, no NaN or Infinity, no lone surrogates, at most 100 levels deep."),
    Kind("bad-parameter", 400, "A query parameter is unknown or unusable", "Remove the parameter or correct its value; the detail names it."),
    Kind("empty-filter", 400, "The filter is empty", "Say which jobs are meant, or \"all\": true."),
    Kind("bad-cursor", 400, "The cursor is not one of ours", "Start again without a cursor, and pass cursors back unchanged and with the same filter."),
    Kind("idempotency-key-malformed", 400, "The Idempotency-Key cannot be used", "Send one key: 1 to 255 characters out of A-Z a-z 0-9 . _ ~ : -, bare or as a quoted string."),
    Kind("idempotency-key-missing", 400, "An Idempotency-Key is required", "Send a fresh Idempotency-Key with each new submission, and the same one when you repeat it."),
    Kind("unauthorized", 401, "A valid key is required", "Send Authorization: Bearer with a key that is neither expired nor revoked."),
    Kind("forbidden", 403, "The key does not allow this", "Use a key whose role allows the action."),
    Kind("csrf", 403, "The form was not sent from this site", "Reload the page and send the form again."),
    Kind("not-found", 404, "There is nothing here", "Check the address; what belongs to somebody else looks the same as what does not exist."),
    Kind("method-not-allowed", 405, "The method is not allowed here", "Use one of the methods that Allow lists."),
    Kind("not-acceptable", 406, "The answer cannot be given in an accepted form", "Accept application/json, or what the Accept header of the answer lists."),
    Kind("illegal-transition", 409, "The job's state does not allow this", "Read the job again; the detail names its state."),
    Kind("job-cancelled", 409, "The job was cancelled and has no result", "Submit it again or retry it if the result is still wanted."),
    Kind("job-failed", 409, "The job failed and has no result", "Read the error member; correct the cause and retry the job."),
    Kind("resource-busy", 409, "The resource is still being made", "Wait for its job to end or cancel the job first."),
    Kind("endpoint-disabled", 409, "The endpoint is disabled", "Set its status to enabled, then send again what has failed."),
    Kind("gone", 410, "The job has expired or was purged", "Its record is no longer kept. Reconcile by the list of resources, if its type has one."),
    Kind("artifact-in-use", 409, "The artifact cannot be deleted now", "An upload stays while an active job uses it; what a job left goes with the job, or with its resource."),
    Kind("link-expired", 410, "The link has expired", "POST /v1/artifacts/{id}:sign gives a new one to whoever may."),
    Kind("resync-required", 410, "The cursor is too old", "Read the list of jobs anew, then follow the changes from a fresh cursor."),
    Kind("precondition-failed", 412, "It has changed since you read it", "Read it again and decide anew."),
    Kind("too-large", 413, "The body is too large", "Send less; the detail names the limit. Files go to POST /v1/files."),
    Kind("unsupported-media-type", 415, "The body has an unsupported media type", "Send one of the media types that the Accept header of the answer lists."),
    Kind("range-not-satisfiable", 416, "The range lies outside the file", "Ask for a range within the size that Content-Range tells."),
    Kind("unknown-type", 422, "There is no such job type", "GET /v1/job-types lists the types of this server."),
    Kind("type-unavailable", 422, "The job type is not installed here", "It needs packages that this server does not have; the detail says how its operator installs them."),
    Kind("invalid-payload", 422, "The body does not fit", "Each entry of errors points to a member and says what is wrong with it."),
    Kind("idempotency-key-reused", 422, "The Idempotency-Key was used for another body", "Use a fresh key for each new submission."),
    Kind("target-forbidden", 422, "The address may not be reached from here", "Use a public http or https address, or ask the operator to list this one in ACCEPTED_ALLOWED_TARGETS."),
    Kind("unknown-input", 422, "There is no such file", "Upload it by POST /v1/files and use the url of the answer."),
    Kind("too-many-requests", 429, "Too many requests", "Wait as long as Retry-After says."),
    Kind("internal-error", 500, "Something went wrong on the server", "Try again later; if it stays, tell the operator the request id."),
    Kind("storage-unavailable", 503, "The database cannot be written at the moment", "Nothing was stored, unless the detail says otherwise. Try again after the time in Retry-After."),
    Kind("too-many-watchers", 503, "Too many clients are waiting", "Poll without wait, or try again after the time in Retry-After."),
    Kind("storage-full", 507, "The disk is full", "Nothing was stored. Ask the operator to make room, then try again."),
    # What ends a job
    Kind("worker-lost", 500, "The worker was lost", "The worker that ran the job stopped answering and no attempts are left. Retry the job."),
    Kind("worker-crashed", 500, "The worker process died", "The process that ran the job ended by itself, often for lack of memory. Retry the job or give it less to do."),
    Kind("job-timed-out", 504, "The job took too long", "Give it a longer timeout or less to do."),
    Kind("job-raised", 500, "The job type has a fault", "The function that does the work raised an exception that it did not expect. Tell its author."),
    Kind("retry-requested", 503, "The job asked to be tried again",
         "The function that does the work cannot do it at the moment. It is tried again while attempts are left; then retry the job."),
    Kind("never-started", 504, "The job was not started in time", "No worker took the job before its queueTtl ended. Check that a worker serves its queue."),
    Kind("result-invalid", 500, "The result is not valid JSON", "The job type returned something that cannot be written as JSON. Tell its author."),
    Kind("result-too-large", 500, "The result is too large", "The job type should leave an artifact instead. The operator can raise ACCEPTED_MAX_RESULT."),
    Kind("parts-failed", 500, "Some parts could not be done", "The result holds what was done; errors names each part that was not, and why."),
    Kind("source-differs", 422, "The source is not what was expected", "Compare the digest that you gave with the publisher's; the detail says what came."),
    Kind("command-failed", 422, "The command failed", "The detail has its last line and the log has the rest. Change the parameters, or ask the operator."),
    Kind("source-unavailable", 424, "The source could not be fetched", "Check that the address answers and try again."),
    Kind("source-codec-unsupported", 422, "The source cannot be decoded", "Send a file with a stream that ffmpeg can decode, of video or, for the rendition audio, of sound; the detail says what was found."),
    Kind("source-unreadable", 422, "The source cannot be read", "Send a picture (PNG, JPEG, TIFF, WebP) or a PDF that opens without a password; the detail says what was found."),
    Kind("source-too-large", 422, "The source is too large to be read", "Send a smaller picture or fewer pages; the detail names the limit."),
    Kind("export-render-failed", 422, "The export could not be rendered", "The detail says why, and what to change: export fewer or shorter articles at once, or ask the operator for more time or memory."),
    Kind("nothing-to-export", 422, "There is nothing to export", "Send Markdown that can be read, or name a topic that has articles."),
    Kind("report-query-failed", 500, "The source refused the query", "The detail holds the source's own words. Tell the operator, whose file declares the query."),
    Kind("report-query-slow", 504, "The query took too long", "Narrow it by its parameters, or ask the operator for a longer timeout of the source or a faster query."),
    Kind("report-format-missing", 422, "The format is not available here", "Choose another format, or ask the operator to install what the detail names."),
    Kind("drill-failed", 422, "The drill failed as asked", "It was told to fail; nothing is wrong."),
)
KINDS = {kind.slug: kind for kind in _KINDS}


class Problem(Exception):
    """Something cannot be done, and the client is told why; raised by a handler, it fails its job for good.

    `slug` names the kind. One that is not in the registry is a job type's own: give `title`, and `status` if not 422.
    `errors` lists `{"pointer": "#/…", "detail": …}` (RFC 9457, JSON pointers as URI fragments); `headers` go to the
    answer only; further keywords become members of the document.
    """

    def __init__(self, slug: str, detail: str | None = None, *, status: int | None = None, title: str | None = None,
                 errors: list[dict] | None = None, headers: dict[str, str] | None = None, **members: Any):
        kind = KINDS.get(slug)
        self.slug = slug
        self.status = status or (kind.status if kind else 422)
        self.title = title or (kind.title if kind else slug.replace("-", " ").capitalize())
        self.detail = detail
        self.headers = headers or {}
        self.extra = members | ({"errors": errors} if errors else {})
        super().__init__(detail or self.title)

    def members(self, base_url: str) -> dict[str, Any]:
        """The members of the problem document; `type` is absolute under `base_url`."""
        document = {"type": f"{base_url}/problems/{self.slug}", "title": self.title, "status": self.status}
        if self.detail:
            document["detail"] = self.detail
        return document | self.extra


class Retry(Exception):
    """The attempt did not work out, but a later one may. `after` seconds from now, else by the usual backoff.

    `problem` is what the job ends with when no attempts are left; without it `retry-requested` with the reason.
    """

    def __init__(self, after: float | None = None, reason: str | None = None, problem: Problem | None = None):
        self.problem = problem or Problem("retry-requested", reason or "The job asked to be tried again.")
        super().__init__(str(self.problem))
        self.after = after


class StorageUnavailable(Exception):
    """The database cannot be written or read at the moment."""


class StorageFull(StorageUnavailable):
    """The disk that holds the database is full."""


class StorageUnknown(StorageUnavailable):
    """The database broke off during a commit: nobody can tell whether anything was stored."""
