"""Audit: what people did, as an admin looks it up, in a real browser."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from jobs.core import audit
from jobs.core.audit import Act, Actor, Door
from tests.e2e.browsing import database, fits, press, visitor

HOSTILE = "<img src=x onerror=alert(1)>\u202e\u0007" + "w" * 5000


@pytest.fixture(scope="module")
def chief(server):
    return server.session("chief", "admin")


@pytest.mark.parametrize("script", [True, False])
def test_what_was_done_here_and_by_the_api_is_found(browser, server, chief, script):
    owner = f"tess-{script}"
    tess = server.session(owner)
    job = tess.submit("demo.drill", seconds=60, steps=600)
    tess.reached(job["id"], {"running"})
    with visitor(browser, server, chief.key, java_script_enabled=script) as page:
        page.goto(f"{server.url}/ui/jobs/{job['id']}")
        press(page, "Cancel", page.get_by_role("main"))
        tess.finished(job["id"])
        page.goto(f"{server.url}/ui/jobs/{job['id']}")
        expect(page.locator(".timeline .by", has_text="by chief on the dashboard")).to_have_count(1)
        made = tess.post(f"/v1/jobs/{job['id']}:retry").json()["id"]
        page.goto(f"{server.url}/ui/jobs/{job['id']}")
        expect(page.locator(".timeline .retried")).to_contain_text(f"Tried again as #{made}")
        tess.delete(f"/v1/jobs/{made}")
        page.get_by_role("navigation").get_by_role("link", name="Audit").click()
        page.get_by_label("Job number or path").fill(f"#{job['id']}")
        press(page, "Search")
        expect(page.locator(".acts li")).to_have_count(2)
        assert re.search(r"/ui/audit\?on=%23\d+$", page.url)
        page.get_by_label("What was done").select_option("job.cancel")
        press(page, "Search")
        [line] = page.locator(".acts li").all()
        expect(line).to_contain_text("chief on the dashboard")
        line.get_by_role("link").click()
        page.wait_for_url(f"**/ui/jobs/{job['id']}")


def test_pages_of_acts_go_on_where_the_last_ended(browser, server, chief):
    with database(server) as opened:
        opened.write(lambda tx: [audit.note(tx, Actor("una", Door.API), Act.PURGE, f"/v1/jobs/{number}", "una") for number in range(120)])
    with visitor(browser, server, chief.key) as page:
        page.goto(f"{server.url}/ui/audit?actor=una")
        seen = []
        for number in (50, 50, 20):
            expect(page.locator(".acts li")).to_have_count(number)
            seen += page.locator(".acts li code").all_inner_texts()
            if number == 50:
                page.get_by_role("link", name="Older").click()
                page.wait_for_url("**before=*")
                expect(page.locator(".acts li code").first).not_to_have_text(seen[-50])
        assert seen == [f"/v1/jobs/{number}" for number in range(119, -1, -1)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_hostile_words_stay_words_and_axe_finds_nothing(browser, server, chief, theme):
    with database(server) as opened:
        opened.write(lambda tx: audit.note(tx, Actor(HOSTILE, Door.COMMAND), Act.MAKE_ENDPOINT, f"/v1/{HOSTILE}", HOSTILE, url=HOSTILE))
    with visitor(browser, server, chief.key, color_scheme=theme, viewport={"width": 320, "height": 640}) as page:
        page.goto(f"{server.url}/ui/audit?act=endpoint.create")
        assert page.locator("main img").count() == 0 and fits(page)
        expect(page.get_by_role("link", name="Audit")).to_be_in_viewport()      # of the places, which are more than fit
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        assert not found, [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]


def test_only_admins_look(page, server):
    assert page.goto(f"{server.url}/ui/audit").status == 403
    page.goto(f"{server.url}/ui/")
    assert page.get_by_role("link", name="Audit").count() == 0
