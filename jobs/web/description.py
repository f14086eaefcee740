"""Routes by which the server describes itself: OpenAPI, its rendered page, job types, metrics."""

from pathlib import Path
from typing import Any

import flask_swagger_ui
from flask import Blueprint, Response, redirect, render_template, send_from_directory, url_for

from jobs.core.access import Role
from jobs.errors import Problem
from jobs.web import auth, headers, metrics, openapi
from jobs.web.api import known
from jobs.web.auth import public
from jobs.web.site import base_url, site

blueprint = Blueprint("description", __name__)
_SWAGGER = Path(flask_swagger_ui.__file__).parent / "dist"


@blueprint.get("/openapi.json")
@public
def openapi_document() -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    return openapi.document(site().registry, site().settings, base_url())


@blueprint.get("/docs")
@public
def docs() -> Response:
    """The OpenAPI document as a page, from files that this server holds."""
    response = Response(render_template("docs.html"))
    response.headers["Content-Security-Policy"] = headers.CSP.replace("img-src 'self'", "img-src 'self' data:")
    return response


@blueprint.get("/docs/<path:name>")
@public
def docs_asset(name: str) -> Response:
    """The files of the page."""
    if name not in ("swagger-ui-bundle.js", "swagger-ui.css"):
        return redirect(url_for("description.docs"))
    response = send_from_directory(_SWAGGER, name, max_age=86400)
    response.headers["Content-Type"] = "text/javascript; charset=utf-8" if name.endswith(".js") else "text/css; charset=utf-8"
    return response


@blueprint.get("/v1/job-types")
def job_types() -> tuple[dict[str, Any], dict[str, str]]:
    """What this server can do."""
    known()
    found = [openapi.describe_type(declared, site().settings) for declared in site().registry]
    return {"jobTypes": found}, {"Cache-Control": "private, no-cache"}


@blueprint.get("/metrics")
@public
def prometheus() -> Response:
    """Figures for Prometheus; needs a key that sees all, unless the operator opened them."""
    if not site().settings.public_metrics and auth.caller().role not in (Role.READ, Role.ADMIN):
        raise Problem("forbidden", "Only keys with the role read or admin may read the metrics.")
    text, media_type = metrics.render(site())
    return Response(text, content_type=media_type)
