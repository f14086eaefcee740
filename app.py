"""The web application: settings → database → job types → blueprints. Read this file as the map of the web tier."""

from flask import Flask
from flask.json.provider import DefaultJSONProvider
from werkzeug.routing import BaseConverter

from jobs import settings as settings_module
from jobs.artifacts import links
from jobs.artifacts.store import open_store
from jobs.core.models import sqlalchemy_url
from jobs.db import Database
from jobs.doorbell import Doorbell
from jobs.settings import Settings
from jobs.targets import Guard
from jobs.types import load_registry
from jobs.web import (
    acts,
    administration,
    api,
    auth,
    bulk,
    callbacks,
    dashboard,
    description,
    downloads,
    headers,
    limits,
    lists,
    logs,
    problems,
    records,
    resources,
    steering,
    submissions,
    uploads,
)
from jobs.web.dialects import DIALECTS
from jobs.web.hub import Hub
from jobs.web.site import Mount, Site
from jobs.work.job_type import Registry

PARTS = (
    submissions,
    api,
    logs,
    lists,
    steering,
    bulk,
    administration,
    acts,
    description,
    uploads,
    downloads,
    resources,
    callbacks,
)


class Id(BaseConverter):
    """An id in a path: a positive integer that the database can hold. It never takes the colon of a verb with it."""

    regex = "[1-9][0-9]{0,17}"

    def to_python(self, value: str) -> int:
        return int(value)


def collection_converter(registry: Registry) -> type[BaseConverter]:
    """Only the collections that some type owns: any other name in their place is a 404, whatever the method."""
    names = "|".join(declared.collection for declared in registry if declared.collection)
    return type("Collection", (BaseConverter,), {"regex": f"(?:{names or '(?!)'})"})


def create_app(settings: Settings | None = None) -> Flask:
    """Build the app. The database must have been prepared (`jobs.core.models.prepare`); nothing is started here."""
    settings = settings or settings_module.load()
    app = Flask(__name__, static_folder="static", template_folder="templates")
    app.config.update(
        SECRET_KEY=links.secret(settings), SQLALCHEMY_DATABASE_URI=sqlalchemy_url(settings),
        SESSION_COOKIE_HTTPONLY=True, SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_SECURE=settings.base_url.startswith("https:"))
    app.json = DefaultJSONProvider(app)
    app.json.sort_keys, app.json.ensure_ascii, app.json.compact = False, False, True
    registry = load_registry(settings)
    app.url_map.converters |= {"id": Id, "collection": collection_converter(registry)}
    app.url_map.strict_slashes = False

    doorbell = Doorbell(settings.redis_url)
    db = Database(settings, announce=doorbell.ring)
    app.extensions["accepted"] = Site(
        settings=settings, db=db, registry=registry, store=open_store(settings), doorbell=doorbell,
        hub=Hub(db, doorbell, settings), guard=Guard(settings.allowed_targets))

    records.register(app)
    problems.register(app)
    headers.register(app)
    app.before_request(auth.guard)
    limits.register(app)
    for part in PARTS + DIALECTS:
        app.register_blueprint(part.blueprint)
    dashboard.register(app)
    app.wsgi_app = Mount(app.wsgi_app, settings.public_url)
    return app
