"""A browser, and who looks through it."""

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.e2e.browsing import ARGUMENTS, visitor
from tests.stack import Api


expect.set_options(timeout=60_000)     # a busy machine is no fault of the page


@pytest.fixture(scope="module")
def playwright():
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright, chromium_path):
    started = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
    yield started
    started.close()


@pytest.fixture(scope="module")
def api(server) -> Api:
    return server.session("alice")


@pytest.fixture
def page(browser, server, api):
    with visitor(browser, server, api.key) as page:
        yield page
