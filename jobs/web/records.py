"""Reading through the ORM, where an answer is small and rare and the tables' own shape is what is wanted.

Its connections cannot write: every write goes through the door in `jobs.db`.
"""

from typing import Any

from flask import Flask, Response
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from jobs.errors import Problem
from jobs.web import problems

orm = SQLAlchemy()


def register(app: Flask) -> None:
    """Give the app its sessions, `orm.session`."""
    orm.init_app(app)
    with app.app_context():
        _only_read(orm.engine)
    app.register_error_handler(OperationalError, _unavailable)


def _only_read(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def restrict(connection: Any, _: Any) -> None:
        if engine.dialect.name == "sqlite":
            connection.execute("PRAGMA query_only = 1")
        else:
            connection.read_only = True


def _unavailable(_: OperationalError) -> Response:
    return problems.respond(Problem("storage-unavailable", headers={"Retry-After": "5"}))
