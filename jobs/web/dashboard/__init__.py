"""The dashboard under /ui: pages that a server renders, buttons that are forms, and regions that live updates swap."""

from pathlib import Path

from flask import Blueprint, Flask, Response, current_app, g, redirect, render_template, request, url_for
from flask_babel import Babel, gettext
from werkzeug.exceptions import HTTPException

from jobs.core import access
from jobs.core.states import Status
from jobs.errors import KINDS, Problem, StorageFull, StorageUnavailable
from jobs.web import auth, headers, problems
from jobs.web.dashboard import (actions, acts, administration, assets, callbacks, endpoints, export, forms, log, pages, preferences,
                                protection, sign_in, steer, submit, tree, words)
from jobs.web.dashboard.told import prose, told

TRANSLATIONS = Path(__file__).parents[3] / "translations"
blueprint = Blueprint("ui", __name__, url_prefix="/ui")
_OPEN = {"ui.sign_in", "ui.sign_in_by_link", "ui.asset", "ui.progress_icon", "ui.preferences"}
_SIGNED_IN_DAYS = 30


def register(app: Flask) -> None:
    """Add the dashboard to the app."""
    secure = app.config["SESSION_COOKIE_SECURE"]
    app.config.update(SESSION_COOKIE_NAME="__Host-accepted" if secure else "accepted", SESSION_COOKIE_PATH="/",
                      PERMANENT_SESSION_LIFETIME=_SIGNED_IN_DAYS * 86400, SESSION_REFRESH_EACH_REQUEST=False,
                      BABEL_TRANSLATION_DIRECTORIES=str(TRANSLATIONS))
    Babel(app, locale_selector=preferences.language)
    app.jinja_env.globals.update(
        asset=assets.asset, edition=assets.edition, csrf=protection.token, reader=sign_in.reader, language=preferences.language,
        language_tag=preferences.language_tag, languages=preferences.LANGUAGES, theme=preferences.theme, words=words, told=told, statuses=list(Status), may_submit=access.may_submit, field_name=forms.field_name, keep_name=forms.keep_name)
    app.jinja_env.filters.update(visible=tree.visible, prose=prose)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.register_blueprint(blueprint)
    app.add_url_rule("/", "home", auth.public(lambda: redirect(url_for("ui.overview"))))


def _route(path: str, endpoint: str, view, methods: tuple[str, ...] = ("GET",)) -> None:
    blueprint.add_url_rule(path, endpoint, view, methods=methods)


_route("/", "overview", pages.home)
_route("/region", "overview_region", pages.home_region)
_route("/jobs", "job_list", pages.job_list)
_route("/jobs/rows", "job_rows", pages.job_rows)
_route("/jobs/newer", "newer_region", pages.newer)
_route("/jobs.<any(csv, json):form>", "export", export.export)
_route("/jobs/<id:job_id>", "job", pages.job_page)
_route("/jobs/<id:job_id>/region", "job_region", pages.job_region)
_route("/jobs/<id:job_id>/cancel", "cancel", actions.cancel, ("POST",))
_route("/jobs/<id:job_id>/retry", "retry", actions.retry, ("POST",))
_route("/jobs/<id:job_id>/log.txt", "log", log.download)
_route("/jobs/<any(cancel, retry, purge):verb>", "confirm", steer.confirm)
_route("/jobs/<any(cancel, retry, purge):verb>", "carry_out", steer.carry_out, ("POST",))
_route("/deliveries/<id:delivery_id>/redeliver", "redeliver", callbacks.redeliver, ("POST",))
_route("/new", "new_job", submit.choose)
_route("/new/<type_name>", "new_job_of", submit.new)
_route("/new/<type_name>", "create_job", submit.create, ("POST",))
_route("/files", "upload", submit.upload, ("POST",))
_route("/types", "job_types", pages.job_types)
_route("/endpoints", "endpoints", endpoints.listing)
_route("/endpoints", "create_endpoint", endpoints.create, ("POST",))
_route("/endpoints/<id:endpoint_id>", "endpoint", endpoints.page)
_route("/endpoints/<id:endpoint_id>/<any(enable, disable, ping, rotate, delete):verb>", "endpoint_act", endpoints.act, ("POST",))
_route("/keys", "keys", administration.keys)
_route("/keys", "make_key", administration.make_key, ("POST",))
_route("/keys/<id:key_id>/revoke", "revoke_key", administration.revoke_key, ("POST",))
_route("/audit", "acts", acts.listing)
_route("/settings", "settings", administration.settings)
_route("/sign-in", "sign_in", sign_in.sign_in, ("GET", "POST"))
_route("/sign-in/<link>", "sign_in_by_link", sign_in.sign_in_by_link, ("GET", "POST"))
_route("/sign-out", "sign_out", sign_in.sign_out, ("POST",))
_route("/preferences", "preferences", preferences.choose, ("POST",))
_route("/icon-<int(max=100):percent>.svg", "progress_icon", assets.progress_icon)
_route("/assets/<wanted>/<path:name>", "asset", assets.serve)


@blueprint.route("/<path:rest>")
def nothing(rest: str):
    """An address that no page has."""
    raise Problem("not-found")


@blueprint.before_request
def _need_reader() -> Response | None:
    """Every page but signing in needs somebody. A region that is fetched gets a 401: its script reloads the page."""
    found = auth.optional_caller()
    if found:
        sign_in.renew(found)
    if found or request.endpoint in _OPEN:
        return None
    if _fetched():
        return Response(status=401)
    return sign_in.to_sign_in()


@blueprint.after_request
def _protect(response: Response) -> Response:
    """Pages are made for one reader at one moment: nobody keeps them."""
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.setdefault("Content-Security-Policy", headers.CSP)
    response.headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    if _fetched():
        response.headers["Edition"] = assets.edition()
    return response


def _fetched() -> bool:
    """Whether a script asks, for a region of a page that it has open."""
    return (request.endpoint or "").endswith(("_region", "_rows"))


@blueprint.errorhandler(StorageUnavailable)
def _show_storage(error: StorageUnavailable) -> tuple[str, int]:
    """The database is away, or its disk is full."""
    current_app.logger.error("The database is not available: %s", error)
    return _show_problem(Problem("storage-full" if isinstance(error, StorageFull) else "storage-unavailable"))


@blueprint.errorhandler(Exception)
def _show_fault(error: Exception) -> tuple[str, int] | Exception:
    """A fault of ours: the log has it, the reader gets its number."""
    if isinstance(error, HTTPException):
        return error
    current_app.logger.exception("Request %s failed: %s %s", g.get("request_id"), request.method, request.path)
    detail = gettext("The server's log has more under number %(id)s.", id=g.get("request_id"))
    return _show_problem(Problem("internal-error", detail))


@blueprint.errorhandler(Problem)
def _show_problem(problem: Problem) -> tuple[str, int] | Response:
    """A problem as a page for people."""
    if request.endpoint == "ui.upload":     # a script asks, and shows what it is told at the field
        return problems.respond(problem)
    kind = KINDS.get(problem.slug)
    return render_template("failure.html", problem=problem, help=kind.help if kind else None), problem.status
