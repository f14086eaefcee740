"""How tests look at the dashboard: a fresh browser that is signed in and complains of nothing."""

from contextlib import contextmanager

from playwright.sync_api import Browser, Locator, Page

from jobs import settings as settings_module
from jobs.core import access
from jobs.db import Database
from tests.stack import Stack

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]


@contextmanager
def database(server: Stack):
    """The server's own database, to put there what no client can."""
    opened = Database(settings_module.load(server.environment))
    try:
        yield opened
    finally:
        opened.close()


def link_for(server: Stack, key: str) -> str:
    """A one-time link that signs in as the holder of `key`."""
    with database(server) as opened:
        caller = access.authenticate(opened.read(), key)
        return f"{server.url}/ui/sign-in/{opened.write(lambda tx: access.make_sign_in_link(tx, caller.key_id))}"


@contextmanager
def visitor(browser: Browser, server: Stack, key: str, script: str | None = None, **options):
    """A page of a fresh browser that is signed in. Whatever it complains of fails the test; so does its content policy."""
    context = browser.new_context(locale="en-GB", **options)
    complaints: list[str] = []
    context.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    if script:
        context.add_init_script(script)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(link_for(server, key))
    press(page, "Sign in", page.get_by_role("main"))
    page.wait_for_url("**/ui/")
    page.complaints = complaints
    try:
        yield page
    finally:
        context.close()
    assert not [text for text in complaints if "Failed to load resource" not in text], complaints


def press(page: Page, button: str, within: Locator | None = None) -> None:
    """Press a button of a form and wait for the page that it leads to: a reload in the middle of that would find none."""
    with page.expect_navigation():
        (within or page).get_by_role("button", name=button).click()


def fits(page: Page) -> bool:
    """Whether nothing must be scrolled sideways."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")
