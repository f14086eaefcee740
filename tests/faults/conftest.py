"""A house for each test, so that nothing survives what was done to it."""

import pytest

from tests.work.house import House


@pytest.fixture
def house(tmp_path):
    """A house with a database, a Redis and a dispatcher."""
    with House(tmp_path) as own:
        own.dispatcher = own.start("dispatcher")
        yield own
