"""Every test of the core runs on both databases."""

import pytest

from jobs import settings
from jobs.core import models
from jobs.db import Database


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request, tmp_path):
    """A prepared database; `db.rung` collects what it announced."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgresql" else ""
    configuration = settings.load({}, data_dir=tmp_path, database_url=url)
    rung = []
    database = Database(configuration, announce=rung.append)
    models.prepare(database, configuration)
    database.rung = rung
    database.configuration = configuration
    yield database
    database.close()
