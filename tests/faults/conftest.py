"""A house for each test, so that nothing survives what was done to it."""

from contextlib import ExitStack

import pytest

from tests.work.house import House


@pytest.fixture
def make_house(tmp_path, new_database):
    """A house with a database, a Redis and a dispatcher, and with settings of the test's own."""
    with ExitStack() as ends:
        def make(**given):
            own = ends.enter_context(House(tmp_path, database_url=new_database(), **given))
            own.dispatcher = own.start("dispatcher")
            return own
        yield make


@pytest.fixture
def house(make_house):
    """One that gives attempts up after two seconds."""
    return make_house()


@pytest.fixture
def patient(make_house):
    """One that gives up no attempt, and kills nothing, before a test itself gives up."""
    return make_house(lease="10m", grace="10m", drain="10m")
