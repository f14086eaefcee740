"""Every test of the core runs on both databases."""

import pytest

from jobs import settings
from jobs.core import models
from jobs.db import Database


@pytest.fixture(scope="session")
def shared_postgres_url(postgres_server):
    """One PostgreSQL database for all tests of the core: making one for each takes a second."""
    import psycopg

    with psycopg.connect(postgres_server.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE DATABASE core")
    return postgres_server.rpartition("/")[0] + "/core"


def _emptied(url):
    """Rows deleted, ids from 1 again; for the few rows of a test much faster than TRUNCATE."""
    import psycopg

    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        sequences = connection.execute("SELECT sequencename FROM pg_sequences WHERE last_value IS NOT NULL").fetchall()
        connection.execute("".join(["SET session_replication_role = replica;", *(f"DELETE FROM {name};" for name, in tables),
                                    *(f"ALTER SEQUENCE {name} RESTART;" for name, in sequences)]))
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request, tmp_path):
    """A prepared, empty database; `db.rung` collects what it announced."""
    url = _emptied(request.getfixturevalue("shared_postgres_url")) if request.param == "postgresql" else ""
    configuration = settings.load({}, data_dir=tmp_path, database_url=url)
    rung = []
    database = Database(configuration, announce=rung.append)
    models.prepare(database, configuration)
    database.rung = rung
    database.configuration = configuration
    yield database
    database.close()
