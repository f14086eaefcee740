"""The job's page in full, and steering, finding and saving many jobs, in a real browser."""

import csv
import io
import json
import re

import pytest
from playwright.sync_api import expect

from jobs import clock
from jobs.web.dashboard.export import disarmed
from jobs.webhooks import receivers
from tests.e2e.browsing import database, fits, press, visitor
from tests.stack import wait_for

TOMORROW = clock.after(86400)


def test_the_log_follows_is_searched_and_saved(page, server, api):
    job = api.submit("demo.drill", seconds=3, steps=30, logLines=30)
    page.goto(f"{server.url}/ui/jobs/{job['id']}")
    page.evaluate("window.sameDocument = true")
    lines = page.locator("#lines li")
    expect(lines).to_have_count(30)
    expect(page.locator("article")).to_have_attribute("data-status", "succeeded")
    assert page.evaluate("window.sameDocument")
    words = lines.nth(20).locator("bdi").inner_text()
    page.get_by_role("searchbox", name="Search the log").fill(words)
    expect(page.locator("#lines li:not([hidden])").first).to_contain_text(words)
    assert page.locator("#lines li:not([hidden])").count() < 30
    page.keyboard.press("Enter")
    page.wait_for_url("**find=*")
    expect(page.locator("#lines li").first).to_contain_text(words)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    text = download.value.path().read_text()
    assert download.value.suggested_filename == f"job-{job['id']}.log.txt" and text.count("\n") == 30


def test_without_eventsource_the_log_is_asked_for(browser, server, api):
    with visitor(browser, server, api.key, script="delete window.EventSource") as page:
        job = api.submit("demo.drill", seconds=2, steps=20, logLines=12)
        page.goto(f"{server.url}/ui/jobs/{job['id']}")
        expect(page.locator("#lines li")).to_have_count(12)


def test_the_tab_tells_the_progress(page, server, api):
    job = api.submit("demo.drill", seconds=5, steps=50)
    page.goto(f"{server.url}/ui/jobs/{job['id']}")
    wait_for(lambda: re.match(r"[1-9]\d? % · ", page.title()), what="the title to tell")
    assert re.search(r"/ui/icon-\d+\.svg$", page.locator("#tab-icon").get_attribute("href"))
    expect(page).to_have_title(re.compile("^Succeeded"))


def test_callbacks_are_listed_and_sent_again(browser, server):
    api = server.session("carol")
    with database(server) as opened:
        opened.write(lambda tx: receivers.register(tx, "carol", "https://receiver.invalid/hook", ["job.succeeded"]))
    job = api.submit("demo.drill", seconds=0)
    api.finished(job["id"])
    wait_for(lambda: any(one["attempts"] for one in api.get(f"/v1/jobs/{job['id']}/deliveries").json()["deliveries"]), 20,
             "the first attempt")
    with database(server) as opened:
        opened.write(lambda tx: tx.run("UPDATE deliveries SET state = 'failed', next_at = NULL WHERE job_id = :id", id=int(job["id"])))
    with visitor(browser, server, api.key) as page:
        page.goto(f"{server.url}/ui/jobs/{job['id']}")
        panel = page.get_by_role("region", name="Callbacks")
        expect(panel).to_contain_text("https://receiver.invalid/hook")
        panel.get_by_text("1 attempt").click()
        expect(panel.locator(".tries li")).to_have_count(1)
        press(page, "Send again", panel)
        expect(page.locator(".note")).to_contain_text("being sent again")
        expect(panel).to_contain_text("On its way")


def test_a_job_is_purged_after_one_has_said_yes(browser, server, api):
    job = api.submit("demo.drill", seconds=0)
    api.finished(job["id"])
    with visitor(browser, server, api.key, java_script_enabled=False) as page:
        page.goto(f"{server.url}/ui/jobs/{job['id']}")
        page.get_by_role("link", name="Purge …").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Purge 1 job?")
        assert api.job(job["id"])["status"] == "succeeded"
        press(page, "Purge for good")
        expect(page.locator(".note")).to_contain_text("1 job was purged")
    assert api.get(f"/v1/jobs/{job['id']}").status_code == 410


def test_snippets_open_without_a_script(browser, server, api):
    job = api.submit("demo.drill", {"tags": ["it's"]}, seconds=0)
    with visitor(browser, server, api.key, java_script_enabled=False) as page:
        page.goto(f"{server.url}/ui/jobs/{job['id']}")
        panel = page.get_by_role("region", name="The same by program")
        for language, word in (("Python", "requests"), ("JavaScript", "fetch(")):
            panel.get_by_text(language, exact=True).click()
            expect(panel.locator("pre:visible")).to_contain_text(word)


@pytest.mark.parametrize("script", [True, False])
def test_several_jobs_are_cancelled_and_tried_again(browser, server, script):
    api = server.session(f"dora{script}")
    jobs = [api.submit("demo.drill", {"tags": ["bulk"], "notBefore": TOMORROW}, seconds=0) for _ in range(3)]
    with visitor(browser, server, api.key, java_script_enabled=script) as page:
        page.goto(f"{server.url}/ui/jobs?tag=bulk")
        page.get_by_label(f"Choose job #{jobs[0]['id']}").check()
        page.get_by_label(f"Choose job #{jobs[1]['id']}").check()
        press(page, "Cancel …")
        expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 2 jobs?")
        assert f"ids={jobs[0]['id']}" in page.url
        press(page, "Cancel them")
        page.wait_for_url("**/ui/jobs?tag=bulk")
        expect(page.locator(".note")).to_contain_text("2 jobs were cancelled")
        assert [api.job(one["id"])["status"] for one in jobs] == ["cancelled", "cancelled", "queued"]
        page.get_by_label("All that fit the filter").check()
        press(page, "Try again …")
        expect(page.get_by_role("heading", level=1)).to_have_text("Try 2 jobs again?")
        expect(page.locator(".sure")).to_contain_text("1 job is left as it is: Waiting")
        press(page, "Try again", page.get_by_role("main"))
        expect(page.locator(".note").first).to_contain_text("2 jobs are tried again")
        press(page, "Cancel …")
        expect(page.locator(".note")).to_contain_text("Choose the jobs first.")


def test_the_address_keeps_what_is_sought(browser, server):
    api = server.session("emil")
    old = api.submit("demo.drill", {"tags": ["季度", "a%b"]}, seconds=0)
    api.submit("demo.drill", seconds=0)
    with visitor(browser, server, api.key, timezone_id="Asia/Shanghai") as page:
        page.goto(f"{server.url}/ui/jobs")
        expect(page.locator(".list > li")).to_have_count(2)
        page.get_by_text("More filters").click()
        page.get_by_label("Tag").fill("季度")
        press(page, "Search", page.get_by_role("main"))
        expect(page.locator(".list > li")).to_have_count(1)
        assert "status=" not in page.url and "tag=" in page.url
        page.reload()
        expect(page.locator(f"#job-{old['id']}")).to_be_visible()
        page.goto(f"{server.url}/ui/jobs?since=2099-01-01T00:00&zone=-480")
        expect(page.locator(".empty")).to_have_text("No job fits.")
        page.goto(f"{server.url}/ui/jobs?until=2099-01-01&since=nonsense")
        expect(page.locator(".list > li")).to_have_count(2)
        page.goto(f"{server.url}/ui/jobs?owner=alice")
        expect(page.locator(".empty")).to_have_text("No job fits.")


def test_the_list_is_saved_as_csv_and_json(browser, server):
    api = server.session("fritz")
    made = [api.submit("demo.drill", {"tags": ["=1+1"]}, seconds=0, value="=cmd()")["id"] for _ in range(3)]
    server.session("greta").submit("demo.drill", seconds=0)
    with visitor(browser, server, api.key) as page:
        page.goto(f"{server.url}/ui/jobs")
        saved = {}
        for form in ("CSV", "JSON"):
            with page.expect_download() as download:
                page.get_by_role("link", name=form, exact=True).click()
            saved[form] = download.value.path().read_text("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(saved["CSV"])))
    assert [row["id"] for row in rows] == made[::-1] == [one["id"] for one in json.loads(saved["JSON"])]
    assert {row["tags"] for row in rows} == {"'=1+1"}


def test_no_cell_is_a_formula():
    assert [disarmed(cell) for cell in ("=1", "+1", "-1", "@x", "\tx", "a=1", None, 5)] == [
        "'=1", "'+1", "'-1", "'@x", "'\tx", "a=1", "", "5"]


def test_others_can_neither_be_seen_nor_steered(browser, server, api):
    theirs = server.session("hugo").submit("demo.drill", {"notBefore": TOMORROW}, seconds=0)
    with visitor(browser, server, api.key) as page:
        page.goto(f"{server.url}/ui/jobs/cancel?ids={theirs['id']}")
        expect(page.get_by_role("heading", level=1)).to_have_text("Nothing to do")
        assert page.goto(f"{server.url}/ui/jobs/{theirs['id']}/log.txt").status == 404
    reader = server.session("ida", "read")
    with visitor(browser, server, reader.key) as page:
        page.goto(f"{server.url}/ui/jobs")
        assert page.get_by_label("Choose job").count() == 0
        assert page.goto(f"{server.url}/ui/jobs/cancel?all=1").status == 403


def test_the_new_pages_fit_a_phone(browser, server, api):
    job = api.submit("demo.drill", {"tags": ["w" * 100]}, seconds=0, value="长" * 500, logLines=3)
    api.finished(job["id"])
    with visitor(browser, server, api.key, viewport={"width": 320, "height": 640}) as page:
        for path in ("jobs?tag=" + "w" * 100, f"jobs/purge?ids={job['id']}", f"jobs/{job['id']}"):
            page.goto(f"{server.url}/ui/{path}")
            assert fits(page), f"{path} is wider than the screen"
