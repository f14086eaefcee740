"""One server for the tests of the dialects, whose pollers come back after one second."""

import pytest

from tests.stack import ROOT, Stack


@pytest.fixture(scope="session")
def speaker(tmp_path_factory):
    """A running server with the job types of `tests/web/types`."""
    with Stack(tmp_path_factory.mktemp("speaker"), workers=3, retry_after="1", job_modules=ROOT / "tests/web/types") as stack:
        yield stack


@pytest.fixture(scope="session")
def alice(speaker):
    """Submits and steers her own jobs."""
    return speaker.session("alice")


@pytest.fixture(scope="session")
def bob(speaker):
    """Another one who submits."""
    return speaker.session("bob")
