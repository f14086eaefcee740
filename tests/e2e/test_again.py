"""From a job's page to the form filled in like it, and on to the next job, as a person walks."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.browsing import press, visitor
from tests.stack import ROOT, Stack
from tests.web.making import accept_many


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Stack(tmp_path_factory.mktemp("again"), job_modules=ROOT / "tests/web/types") as stack:
        yield stack


def walk(page, server, job: dict, link: str) -> None:
    """Open the job's page and follow the link to the form."""
    page.goto(f"{server.url}/ui/jobs/{job['id']}")
    with page.expect_navigation():
        page.get_by_role("link", name=link).click()


def sent(page, api) -> dict:
    """Send the form; the job that came to be."""
    press(page, "Submit")
    page.wait_for_url(re.compile(r"/ui/jobs/\d+$"))
    return api.job(page.url.rpartition("/")[2])


def test_a_failed_one_with_a_secret_is_changed_and_tried_again(page, server, api):
    first = api.finished(api.submit("test.secret", {"tags": ["nightly"], "priority": "high"}, token="s3cret", fate="fail")["id"])
    walk(page, server, first, "Change and try again")
    assert "s3cret" not in page.content()
    expect(page.get_by_label("Keep the earlier secret")).to_be_checked()
    expect(page.get_by_label("Tags")).to_have_value("nightly")
    page.get_by_label("Priority").select_option("low")
    again = sent(page, api)
    assert (again["retryOf"], again["priority"], again["tags"]) == (first["id"], "low", ["nightly"])
    assert api.finished(again["id"])["status"] == "failed", "it had the secret, and failed like the first"

    walk(page, server, first, "Change and try again")
    page.locator("[name='payload.fate']").fill("succeed")
    new = api.finished(sent(page, api)["id"])
    assert new["retryOf"] is None and new["status"] == "succeeded" and new["result"]["length"] == len("s3cret")


def test_a_succeeded_one_with_a_file_is_done_anew(page, server, api):
    url = api.post("/v1/files?name=clip%20one.txt", data=b"text").json()["url"]
    first = api.finished(api.submit("test.reader", source=url)["id"])
    walk(page, server, first, "New one like this")
    expect(page.locator(".kept")).to_contain_text("clip one.txt")
    new = api.finished(sent(page, api)["id"])
    assert (new["payload"], new["retryOf"], new["result"]) == ({"source": url}, None, "text")


def test_what_does_not_fit_any_more_is_marked(page, server, api):
    [job_id] = accept_many(server, "alice", 1, type="test.form", payload='{"source": "https://example.com/", "mode": "slow", "old": 1}')
    api.delete(f"/v1/jobs/{job_id}")
    page.goto(f"{server.url}/ui/jobs/{job_id}")
    press(page, "Try again")
    expect(page.locator(".fault:visible")).to_have_text("Must be one of: fast, good.")
    expect(page.get_by_text("does not take it any more: old.")).to_be_visible()
    expect(page.locator("[name='payload.mode']")).to_have_value("")
    page.locator("[name='payload.mode']").select_option("Fast one")
    assert sent(page, api)["payload"] == {"source": "https://example.com/", "mode": "fast"}


def test_a_type_that_is_gone_and_a_job_that_is_purged(page, server, api):
    [job_id] = accept_many(server, "alice", 1, type="long.gone")
    api.delete(f"/v1/jobs/{job_id}")
    page.goto(f"{server.url}/ui/jobs/{job_id}")
    expect(page.get_by_text("does not have its job type any more")).to_be_visible()
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)
    first = api.finished(api.submit("demo.drill", seconds=0)["id"])
    page.goto(f"{server.url}/ui/jobs/{first['id']}")
    link = page.get_by_role("link", name="New one like this")
    expect(link).to_be_visible()
    api.post(f"/v1/jobs/{first['id']}:purge")
    page.goto(f"{server.url}{link.get_attribute('href')}")
    expect(page.get_by_text("the form is empty")).to_be_visible()
    expect(page.get_by_label("Steps")).to_have_value("10")


def test_signing_out_everywhere(browser, page, server, api):
    with visitor(browser, server, api.key) as other:
        page.goto(f"{server.url}/ui/")
        page.locator(".menu summary").click()
        press(page, "Sign out everywhere")
        expect(page.get_by_label("Key")).to_be_visible()
        other.goto(f"{server.url}/ui/types")
        expect(other.get_by_label("Key")).to_be_visible()
