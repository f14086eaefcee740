"""Errors as problem documents (RFC 9457), and the page of each kind that a person can read."""

import json
import re
import uuid

from flask import Flask, Response, current_app, g, render_template, request
from flask.globals import request_ctx
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from jobs.errors import KINDS, Problem, StorageFull, StorageUnavailable, StorageUnknown
from jobs.web.auth import public
from jobs.web.site import base_url

MEDIA_TYPE = "application/problem+json"
_BY_STATUS = {400: "bad-request", 401: "unauthorized", 403: "forbidden", 404: "not-found", 405: "method-not-allowed",
              406: "not-acceptable", 413: "too-large", 415: "unsupported-media-type", 429: "too-many-requests"}
_ANONYMOUS = {"not-found"}  # what is foreign and what never was must look alike to the byte


def register(app: Flask) -> None:
    """Turn every error of the app into a problem document."""
    app.before_request(_name_request)
    app.after_request(_send_request_id)
    app.register_error_handler(Problem, respond)
    app.register_error_handler(HTTPException, _from_http)
    app.register_error_handler(StorageFull, _storage_full)
    app.register_error_handler(StorageUnavailable, _storage_unavailable)
    app.register_error_handler(Exception, _unexpected)
    app.add_url_rule("/problems/<slug>", "problem_page", problem_page)
    app.add_url_rule("/problems/", "problem_list", problem_list)


def not_found() -> Problem:
    """There is nothing here, or nothing that this caller may know of."""
    return Problem("not-found")


def respond(problem: Problem) -> Response:
    """The problem as the answer to this request."""
    members = problem.members(base_url())
    if problem.slug not in _ANONYMOUS:
        if problem.slug in KINDS and not {"detail", "errors"} & members.keys():
            members["detail"] = KINDS[problem.slug].help
        members |= {"instance": request.path, "requestId": g.get("request_id")}
    return document(members, problem.headers)


def document(members: dict, headers: dict[str, str] | None = None) -> Response:
    """A problem document; `status` on the wire is the member's. Needs no request."""
    response = Response(json.dumps(members, ensure_ascii=False), members["status"], content_type=MEDIA_TYPE)
    response.headers["Cache-Control"] = "no-store"
    response.headers.update(headers or {})
    return response


@public
def problem_page(slug: str):
    """What a kind of problem means and what to do about it."""
    kind = KINDS.get(slug)
    if kind is None:
        raise not_found()
    return render_template("problem.html", kind=kind)


@public
def problem_list():
    """All kinds of problems."""
    return render_template("problems.html", kinds=KINDS.values())


def _from_http(error: HTTPException) -> Response:
    if error.code is None or error.code < 400:
        return error.get_response()  # a redirect of the router
    if isinstance(error, MethodNotAllowed) and _leads_nowhere(error):
        return respond(not_found())
    kept = ("Allow", "Retry-After", "WWW-Authenticate")
    headers = {name: value for name, value in error.get_headers() if name in kept}
    slug = _BY_STATUS.get(error.code, "bad-request" if error.code < 500 else "internal-error")
    detail = None if error.code in (404, 405) else error.description    # Werkzeug's own words say less than our help
    return respond(Problem(slug, detail, status=error.code, headers=headers))


def _leads_nowhere(error: MethodNotAllowed) -> bool:
    """Whether with any other method the path would lead to a view that only refuses: then there is nothing here."""
    adapter = request_ctx.url_adapter
    try:
        views = [current_app.view_functions[adapter.match(method=method)[0]] for method in error.valid_methods or ()]
    except HTTPException:
        return False
    return bool(views) and all(getattr(view, "only_refuses", False) for view in views)


def _storage_full(error: StorageFull) -> Response:
    current_app.logger.error("The disk is full: %s", error)
    return respond(Problem("storage-full", headers={"Retry-After": "60"}))


def _storage_unavailable(error: StorageUnavailable) -> Response:
    current_app.logger.error("The database is not available: %s", error)
    is_unknown = isinstance(error, StorageUnknown)
    detail = f"{error} Repeat the request with the same Idempotency-Key." if is_unknown else None
    return respond(Problem("storage-unavailable", detail, headers={"Retry-After": "5"}))


def _unexpected(error: Exception) -> Response:
    current_app.logger.exception("Request %s failed: %s %s", g.get("request_id"), request.method, request.path)
    return respond(Problem("internal-error", f"The server's log has more under request id {g.get('request_id')}."))


def _name_request() -> None:
    given = request.headers.get("X-Request-Id", "")
    g.request_id = given if re.fullmatch(r"[\w.:/+=-]{1,128}", given, re.ASCII) else uuid.uuid4().hex


def _send_request_id(response: Response) -> Response:
    response.headers["X-Request-Id"] = g.get("request_id", "")
    return response
