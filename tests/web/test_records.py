"""The ORM reads and cannot write."""

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import SQLAlchemyError

from app import create_app
from jobs import settings
from jobs.core import access, models
from jobs.core.people import Key
from jobs.db import Database
from jobs.web.records import orm


@pytest.fixture(params=["sqlite", "postgresql"])
def app(request, tmp_path):
    """An app on a prepared database with one key in it."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgresql" else ""
    found = settings.load({}, data_dir=tmp_path, database_url=url)
    database = Database(found)
    models.prepare(database, found)
    database.write(lambda tx: access.make_key(tx, "alice", "submit"))
    database.close()
    app = create_app(found)
    with app.app_context():
        yield app
        orm.engine.dispose()


def test_it_reads_what_the_door_wrote(app):
    assert [key.owner for key in orm.session.scalars(select(Key))] == ["alice"]


def test_it_cannot_write(app):
    orm.session.add(Key(hash="x", hint="x", owner="mallory", role="admin", name="", created_at=""))
    with pytest.raises(SQLAlchemyError):
        orm.session.flush()
    orm.session.rollback()
    with pytest.raises(SQLAlchemyError):
        orm.session.execute(text("DELETE FROM keys"))
