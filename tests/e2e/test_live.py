"""How pages stay live: one stream for all tabs of a browser, sleep, cuts, silence, a new server; in a real Chromium."""

import socket

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browsing import ARGUMENTS, link_for, press, visitor
from tests.e2e.wire import Wire
from tests.stack import wait_for

MINUTE = 60_000


@pytest.fixture
def wire(server):
    made = Wire(server.url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def window(playwright, chromium_path):
    """A browser's window as people have it: of its tabs only the one in front is seen."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    browser = playwright.chromium.launch(executable_path=chromium_path, args=[*ARGUMENTS, f"--remote-debugging-port={port}"])
    # Playwright's own pages are all in front at once; those of a browser that it merely joins are not.
    joined = playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port}", no_defaults=True)
    joined.contexts[0].set_default_timeout(60_000)
    yield joined.contexts[0]
    joined.close()
    browser.close()


@pytest.fixture
def tabs(window, wire, server, api):
    """Opens tabs of the window at an address of the dashboard, signed in."""
    opened = []

    def tab(path: str = "") -> Page:
        page = window.new_page()
        if not opened:
            window.clear_cookies()
            page.goto(link_for(server, api.key))
            press(page, "Sign in", page.get_by_role("main"))
        opened.append(page)
        page.goto(f"{wire.url}/ui/{path}")
        return page

    yield tab
    for page in opened:
        page.close()


def is_live(page: Page) -> None:
    expect(page.locator("#live")).to_have_text("Live")


def has_ended(page: Page, job: dict) -> None:
    expect(page.locator(f"#end-{job['id']}")).to_have_count(1)


def test_eight_tabs_share_one_stream(tabs, wire, api):
    pages = [tabs() for _ in range(8)]
    for page in pages:
        is_live(page)
    assert [asked.split()[1] for asked in wire.streams] == ["/v1/events"]
    job = api.submit("demo.drill", seconds=0)
    for page in pages[::-1]:        # the one in front is the last
        page.bring_to_front()
        has_ended(page, job)
    assert len(wire.streams) == 1 and len(wire.open) <= 6


def test_the_tab_that_came_first_may_close(tabs, wire, api):
    first, second = tabs(), tabs()
    is_live(first), is_live(second)
    job = api.submit("demo.drill", seconds=60, steps=600)
    expect(second.locator(f"#run-{job['id']}")).to_be_visible()
    second.evaluate("window.sameDocument = true")
    first.close()
    api.post(f"/v1/jobs/{job['id']}:cancel")
    has_ended(second, job)
    assert second.evaluate("window.sameDocument")
    assert sum("/v1/events" in asked for asked in wire.asked) == 1, "the stream went on"


def test_tabs_of_different_readers_share_nothing(browser, server, wire, api):
    bob = server.session("bob")
    with visitor(browser, server, api.key) as page:
        page.goto(f"{wire.url}/ui/")
        is_live(page)
        other = page.context.new_page()
        other.goto(link_for(server, bob.key))
        press(other, "Sign in", other.get_by_role("main"))
        other.goto(f"{wire.url}/ui/")
        is_live(other)
        assert len(wire.streams) == 2
        job = bob.submit("demo.drill", seconds=0)
        has_ended(other, job)


def test_many_logs_leave_connections_for_pages(browser, server, wire, api):
    job = api.submit("demo.drill", seconds=60, steps=600, logLines=40)
    with visitor(browser, server, api.key) as page:         # here all tabs are in front
        pages = [page.context.new_page() for _ in range(7)]
        for one in pages:
            one.goto(f"{wire.url}/ui/jobs/{job['id']}")
            expect(one.locator("#lines li").first).to_be_visible()
        wait_for(lambda: sum("follow=true" in asked for asked in wire.streams) == 3, what="three logs that are streamed")
        before = pages[-1].locator("#lines li").count()
        expect(pages[-1].locator("#lines li").nth(before)).to_be_attached()     # the others ask, and get it
        assert len(wire.streams) <= 4
    api.post(f"/v1/jobs/{job['id']}:cancel")


@pytest.mark.parametrize("script", ["", "delete window.SharedWorker"])
def test_a_frozen_tab_catches_up(tabs, api, script):
    sleeper = tabs("types")
    sleeper.add_init_script(script)
    sleeper.goto(sleeper.url.replace("types", ""))
    is_live(sleeper)
    awake = tabs()
    is_live(awake)
    sleeper.evaluate("window.sameDocument = true; document.addEventListener('freeze', () => window.frozen = true)")
    cdp = sleeper.context.new_cdp_session(sleeper)
    cdp.send("Page.setWebLifecycleState", {"state": "frozen"})
    job = api.submit("demo.drill", seconds=0)
    has_ended(awake, job)
    cdp.send("Page.setWebLifecycleState", {"state": "active"})
    sleeper.bring_to_front()
    has_ended(sleeper, job)
    assert sleeper.evaluate("window.sameDocument && window.frozen")


def test_a_hidden_tab_still_tells_the_end(tabs, api):
    job = api.submit("demo.drill", seconds=60, steps=600)
    hidden = tabs(f"jobs/{job['id']}")
    is_live(hidden)
    front = tabs()
    assert hidden.evaluate("document.hidden") and not front.evaluate("document.hidden")
    api.post(f"/v1/jobs/{job['id']}:cancel")
    wait_for(lambda: hidden.title().startswith("Cancelled"), what="the title of the hidden tab")


def test_a_cut_is_seen_and_nothing_is_missed(tabs, wire, api):
    hidden, page = tabs(), tabs()
    is_live(page)
    wire.refuse()
    expect(page.locator("#live")).to_have_text("Reconnecting …")
    job = api.submit("demo.drill", seconds=0)
    api.finished(job["id"])
    wire.mend()
    has_ended(page, job)
    is_live(page)
    hidden.bring_to_front()
    has_ended(hidden, job)
    assert len(wire.streams) == 1


def test_a_stream_that_died_silently_is_opened_anew(browser, server, wire, api):
    with visitor(browser, server, api.key, script="delete window.SharedWorker") as page:
        page.clock.install()
        page.goto(f"{wire.url}/ui/")
        is_live(page)
        wire.silence("/v1/events")

        def opened_again() -> bool:
            api.submit("demo.drill", seconds=0)
            page.clock.run_for(MINUTE)      # as if so much time went by
            return sum("/v1/events" in asked for asked in wire.asked) > 1

        wait_for(opened_again, what="a second stream")
        job = api.submit("demo.drill", seconds=0)
        wait_for(lambda: page.clock.run_for(1000) or page.locator(f"#end-{job['id']}").count(), what="the job")
        is_live(page)


def test_waits_after_errors_grow_and_differ(browser, server, api):
    with visitor(browser, server, api.key, script="delete window.EventSource") as page:
        page.goto(f"{server.url}/ui/types")
        waits = page.evaluate("""async () => {
            const {Feed} = await import(document.querySelector("script[type=module]").src.replace("dashboard.js", "live.js"));
            const wait = setTimeout, waits = [], states = [];
            await new Promise(enough => {
                window.setTimeout = (action, milliseconds) => {
                    if (milliseconds >= 40_000) return wait(action, milliseconds);      // patience with one request
                    if (waits.push(milliseconds) < 12) return wait(action, 0);
                    feed.stop();
                    enough();
                };
                const feed = new Feed({changes: "/v1/nothing", onState: state => states.push(state)});
                feed.start();
            });
            if (states.some(state => state !== "waiting")) throw new Error(states);
            return waits;
        }""")
    most = [min(30_000, 500 * 2 ** failures) for failures in range(1, 13)]
    assert all(longest / 2 <= wait <= longest for wait, longest in zip(waits, most, strict=True)), waits
    assert len({round(wait / longest, 3) for wait, longest in zip(waits, most)}) > 3, "not in step with other browsers"
