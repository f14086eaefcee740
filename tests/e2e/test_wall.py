"""A page that is left open: notices, a new edition of the server, clocks that differ, leaks, weight; in a real Chromium."""

import json
import re
from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from jobs import clock
from tests.e2e.browsing import visitor
from tests.e2e.traffic import Traffic
from tests.stack import wait_for

TOLD = """
    window.told = [];
    window.Notification = class extends Notification {
        constructor(title, options) { super(title, options); told.push({title, at: performance.now(), ...options}); }
    };
"""
WRONG_CLOCK = """{
    const Real = Date;
    window.Date = class extends Real {
        constructor(...given) { given.length ? super(...given) : super(Date.now()); }
        static now() { return Real.now() + (window.wrong ?? 3_600_000); }
    };
}"""
MOVED = 2000            # changes
LIGHT = 150_000         # bytes


@pytest.fixture
def traffic(server):
    made = Traffic(server, "alice")
    yield made
    made.close()


def is_live(page: Page) -> None:
    expect(page.locator("#live")).to_have_text("Live")


@pytest.mark.parametrize("place", ["", "jobs/{id}"])
def test_notices_are_off_until_asked_for(browser, server, api, place):
    job = api.submit("demo.drill", seconds=60, steps=600)
    runs = f"[data-job='{job['id']}'][data-status=running]"
    with visitor(browser, server, api.key, script=TOLD + "document.hasFocus = () => false;") as page:
        path = place.format(id=job["id"])
        page.goto(f"{server.url}/ui/{path}")
        is_live(page)
        expect(page.locator(runs)).to_have_count(1)
        bell = page.get_by_role("button", name="Notify me when")
        expect(bell).to_have_attribute("aria-pressed", "false")
        page.context.grant_permissions(["notifications"], origin=server.url)
        bell.focus()
        page.keyboard.press("Enter")
        expect(bell).to_have_attribute("aria-pressed", "true")
        page.reload()
        is_live(page)
        expect(bell).to_have_attribute("aria-pressed", "true")      # this browser remembers
        expect(page.locator(runs)).to_have_count(1)
        api.post(f"/v1/jobs/{job['id']}:cancel")
        wait_for(lambda: page.evaluate("told"), what="the notice")
        [notice] = page.evaluate("told")
        assert notice["title"] == f"Drill #{job['id']}: Cancelled" and notice["tag"] == f"job-{job['id']}"
        if path:
            expect(bell).to_be_hidden()     # there is nothing more to tell
            return
        bell.click()
        expect(bell).to_have_attribute("aria-pressed", "false")
        another = api.submit("demo.drill", seconds=0)
        expect(page.locator(f"#end-{another['id']}")).to_have_count(1)
        assert len(page.evaluate("told")) == 1


def test_many_ends_make_few_notices(browser, server, api, traffic):
    with visitor(browser, server, api.key, script=TOLD + "document.hasFocus = () => false;") as page:
        page.context.grant_permissions(["notifications"], origin=server.url)
        page.evaluate("localStorage.setItem('notices.all', 'on')")
        page.reload()
        is_live(page)
        while len(traffic.ended) < 40:
            traffic.change()
        told = wait_for(lambda: (told := page.evaluate("told")) and "jobs have ended" in told[-1]["title"] and told,
                        what="a notice of several")
        assert all(later["at"] - one["at"] > 900 for one, later in pairwise(told)), told


def test_who_looks_at_the_page_needs_no_notice_and_a_refusal_is_said(browser, server, api):
    with visitor(browser, server, api.key, script=TOLD) as page:
        is_live(page)
        bell = page.get_by_role("button", name="Notify me when")
        bell.click()        # a headless browser forbids notices until it is told otherwise
        expect(page.locator("#said")).to_contain_text("does not let this page notify you")
        expect(bell).to_have_attribute("aria-pressed", "false")
        page.context.grant_permissions(["notifications"], origin=server.url)
        page.reload()
        bell.click()
        expect(bell).to_have_attribute("aria-pressed", "true")
        job = api.submit("demo.drill", seconds=0)
        expect(page.locator(f"#end-{job['id']}")).to_be_visible()
        assert page.evaluate("told") == []


def test_a_page_of_an_older_edition_loads_itself_anew(page, server, api):
    """What the page was made from is another now, as after an update of the server."""
    older = "window.sameDocument = true; document.documentElement.dataset.edition = 'older'"
    is_live(page)
    page.evaluate(older)
    api.submit("demo.drill", seconds=0)
    expect(page.locator("html")).not_to_have_attribute("data-edition", "older")
    is_live(page)
    page.evaluate(older)                        # but not again and again
    job = api.submit("demo.drill", seconds=0)
    expect(page.locator(f"#end-{job['id']}")).to_be_visible()
    assert page.evaluate("window.sameDocument")
    page.goto(f"{server.url}/ui/jobs")          # and not while somebody types
    is_live(page)
    words = page.get_by_role("main").get_by_role("searchbox")
    words.fill("half a word")
    page.evaluate(f"sessionStorage.clear(); {older}")
    api.submit("demo.drill", seconds=0)
    expect(page.locator("[data-region=newer] a")).to_be_visible()
    assert page.evaluate("window.sameDocument")
    words.fill("")
    api.submit("demo.drill", seconds=0)
    expect(page.locator("html")).not_to_have_attribute("data-edition", "older")


def test_new_jobs_are_counted_as_the_filter_has_them(page, server, api):
    api.finished(api.submit("demo.drill", seconds=0, fail="as asked")["id"])
    page.goto(f"{server.url}/ui/jobs?status=failed")
    is_live(page)
    rows, newer = page.locator(".list > li"), page.locator("[data-region=newer]")
    shown, first = rows.count(), rows.first.get_attribute("id")
    api.finished(api.submit("demo.drill", seconds=0)["id"])         # does not fit
    for fate in ("no", "not at all"):
        api.finished(api.submit("demo.drill", seconds=0, fail=fate)["id"])
    expect(newer).to_have_text("2 new jobs")
    assert rows.count() == shown and rows.first.get_attribute("id") == first, "the list stays put"
    with page.expect_navigation():
        newer.get_by_role("link").click()
    expect(rows).to_have_count(shown + 2)
    expect(newer).to_have_text("")


def test_a_clock_that_goes_wrong_is_set_by_the_server(browser, server, api):
    job = api.submit("demo.drill", seconds=60, steps=600)
    api.reached(job["id"], {"running"})
    with visitor(browser, server, api.key, script=WRONG_CLOCK) as page:
        elapsed = page.locator(f"#run-{job['id']} .elapsed time")
        expect(elapsed).to_have_text(re.compile(r"^\d:[0-5]\d$"))
        page.evaluate("window.wrong = -7_200_000")       # somebody sets it, wrongly
        other = api.submit("demo.drill", {"notBefore": clock.after(86400)}, seconds=0)
        expect(page.locator(f"#wait-{other['id']}")).to_have_count(1)
        expect(elapsed).to_have_text(re.compile(r"^(0:[1-5]\d|0:0[1-9]|[1-9]:\d\d)$"))
        api.post(f"/v1/jobs/{other['id']}:cancel")
    api.post(f"/v1/jobs/{job['id']}:cancel")


@pytest.mark.parametrize("path", ["", "jobs?rows=200"])
def test_two_thousand_changes_leave_nothing_behind(page, server, traffic, path):
    cdp = page.context.new_cdp_session(page)

    def kept() -> dict[str, int]:
        for _ in range(2):
            cdp.send("HeapProfiler.collectGarbage")
        return cdp.send("Memory.getDOMCounters") | {"heap": int(cdp.send("Runtime.getHeapUsage")["usedSize"])}

    def change(number: int) -> None:
        for _ in range(number):
            traffic.change()
        traffic.finish()
        if path:
            expect(page.locator("[data-region=newer] a")).to_be_visible()
        else:
            expect(page.locator(f"#end-{traffic.ended[-1]}")).to_have_count(1)

    for _ in range(400):        # so that every list is full
        traffic.change()
    page.goto(f"{server.url}/ui/{path}")
    is_live(page)
    change(300)
    before = kept()
    change(MOVED)
    after = kept()
    assert after["nodes"] < 1.25 * before["nodes"] + 200, (before, after)
    assert after["jsEventListeners"] <= before["jsEventListeners"] + 5, (before, after)
    assert after["heap"] < 1.25 * before["heap"] + 500_000, (before, after)


def test_pages_are_light(page, server, api, traffic):
    """Everything that a browser has to fetch when it comes for the first time."""
    while len(traffic.ended) < 60:
        traffic.change()
    job = api.submit("demo.drill", seconds=0, logLines=100)
    api.finished(job["id"])
    cdp = page.context.new_cdp_session(page)
    weight = 0

    def add(event: dict) -> None:
        nonlocal weight
        weight += event["encodedDataLength"]

    cdp.on("Network.loadingFinished", add)
    cdp.send("Network.enable")
    cdp.send("Network.setCacheDisabled", {"cacheDisabled": True})
    for path in ("", "jobs", f"jobs/{job['id']}", "new/video.transcode", "types", "endpoints"):
        weight = 0
        page.goto(f"{server.url}/ui/{path}")
        if path in ("", "jobs"):
            is_live(page)
        assert weight < LIGHT, (path, weight)


def test_nothing_moves_for_who_wants_no_motion(browser, server, api):
    job = api.submit("demo.drill", seconds=60, steps=600, unknownLength=True)
    with visitor(browser, server, api.key, reduced_motion="reduce") as page:
        expect(page.locator(f"#run-{job['id']}")).to_be_visible()
        moving = page.evaluate("document.getAnimations().map(one => one.animationName ?? one.transitionProperty)")
        assert moving == [], json.dumps(moving)
    api.post(f"/v1/jobs/{job['id']}:cancel")
