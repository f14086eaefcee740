"""Houses for tests: one for all that leave it standing, and one of a test's own."""

import pytest

from tests.work.house import House


@pytest.fixture(scope="package")
def shared(tmp_path_factory, new_database):
    """A running house with one worker, for tests that break nothing."""
    with House(tmp_path_factory.mktemp("shared"), max_result="4k", lease="60", database_url=new_database()) as house:
        house.start("dispatcher")
        house.worker = house.start("worker")
        yield house


@pytest.fixture(scope="package")
def patient(tmp_path_factory, new_database):
    """Another, in which nothing that is cancelled is killed before a test gives up: what ends there ended by itself."""
    with House(tmp_path_factory.mktemp("patient"), grace="10m", lease="60", database_url=new_database()) as house:
        house.start("dispatcher")
        house.start("worker")
        yield house


@pytest.fixture
def house(tmp_path, new_database):
    """A house with a database and a Redis; the test starts the rest."""
    with House(tmp_path, database_url=new_database()) as own:
        yield own
