"""Endpoints, keys and settings, in a real browser on the real server."""

import re

import pytest
import requests
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from jobs import clock
from jobs.webhooks import receivers
from tests.e2e.browsing import database, fits, press, visitor
from tests.stack import wait_for

RECEIVER = "https://receiver.invalid/hook"
DEAF = "http://127.0.0.1:9/hook"       # tests may call loopback; nobody listens there


@pytest.mark.parametrize("script", [True, False])
def test_an_endpoint_is_made_tested_stopped_and_deleted(browser, server, script):
    api = server.session(f"paula{script}")
    with visitor(browser, server, api.key, java_script_enabled=script) as page:
        page.goto(f"{server.url}/ui/endpoints")
        page.get_by_label("Address").fill("http://10.0.0.1/hook")
        press(page, "Create")
        expect(page.get_by_role("alert")).to_be_visible()
        expect(page.get_by_label("Address")).to_have_value("http://10.0.0.1/hook")
        page.get_by_label("Address").fill(DEAF)
        press(page, "Create")
        expect(page.locator("#secret")).to_have_text(re.compile("^whsec_"))
        page.goto(f"{server.url}/ui/endpoints")
        page.get_by_role("link", name=DEAF).click()
        page.wait_for_url("**/endpoints/*")
        address = page.url
        assert "whsec_" not in page.content()
        press(page, "New secret")
        expect(page.locator("#secret")).to_have_text(re.compile("^whsec_"))
        page.goto(address)
        assert "whsec_" not in page.content()
        press(page, "Send a test")
        wait_for(lambda: page.goto(address) and page.locator(".deliveries li").get_by_text("Given up").count() == 1, what="the test to fail")
        press(page, "Disable")
        expect(page.locator(".problem")).to_contain_text("Its owner wished so.")
        press(page, "Enable")
        press(page, "Delete")
        expect(page.get_by_text("There are no endpoints yet.")).to_be_visible()


def test_endpoints_of_others_are_not_there(page, server):
    with database(server) as opened:
        row = opened.write(lambda tx: receivers.register(tx, "quentin", RECEIVER, ["*"]))
    assert page.goto(f"{server.url}/ui/endpoints/{row.id}").status == 404
    for path in ("keys", "settings"):
        assert page.goto(f"{server.url}/ui/{path}").status == 403
    page.goto(f"{server.url}/ui/")
    assert page.get_by_role("link", name="Keys").count() == 0


@pytest.mark.parametrize("script", [True, False])
def test_a_key_is_made_shown_once_and_revoked(browser, server, script):
    with visitor(browser, server, server.key, java_script_enabled=script) as page:
        page.goto(f"{server.url}/ui/keys")
        page.get_by_label("Owner").fill("no spaces allowed")
        press(page, "Create")
        expect(page.locator(".fault")).to_be_visible()
        owner = f"rosa{script}"
        page.get_by_label("Owner").fill(owner)
        page.get_by_label("What it is for").fill("a test <b>")
        page.get_by_label("Last day on which it works").fill(clock.after(30 * 86400)[:10])
        press(page, "Create")
        assert page.locator(".fault").all_inner_texts() == []
        made = page.locator("#made").inner_text()
        with visitor(browser, server, made) as other:
            expect(other.locator(".who").first).to_contain_text(owner)
        page.goto(f"{server.url}/ui/keys")
        assert made not in page.content()
        page.get_by_role("button", name=re.compile(f"^Revoke the key .* of {owner}$")).click()
        expect(page.locator(".note")).to_have_text("The key was revoked.")
        expect(page.get_by_role("listitem").filter(has_text=owner)).to_contain_text("revoked")


def test_settings_are_shown_without_their_secrets(browser, stack):
    stack.settings |= {"admin_key": "acc_" + "s" * 43, "secret_key": "t" * 50, "workers": "1"}
    stack.start()
    with visitor(browser, stack, stack.key) as page:
        page.goto(f"{stack.url}/ui/settings")
        expect(page.locator(".settings")).to_contain_text("ACCEPTED_WEB_THREADS")
        assert "s" * 43 not in page.content() and "t" * 50 not in page.content()
        expect(page.locator(".settings > div").filter(has_text="ACCEPTED_SECRET_KEY")).to_contain_text("•••")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_these_pages(browser, server, theme):
    axe, api = Axe(), server.session("sven", "admin")
    with database(server) as opened:
        row = opened.write(lambda tx: receivers.register(tx, "sven", RECEIVER, ["job.succeeded"], "a <b>description</b>"))
    job = api.submit("demo.drill", seconds=0, logLines=3)
    api.finished(job["id"])
    with visitor(browser, server, api.key, color_scheme=theme) as page:
        for path in ("", "?span=hour", "jobs?tag=x&owner=sven", "endpoints", f"endpoints/{row.id}", "keys", "settings", f"jobs/{job['id']}",
                     f"jobs/purge?ids={job['id']}"):
            page.goto(f"{server.url}/ui/{path}")
            found = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
            assert not found, [(path, one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]
    with visitor(browser, server, api.key, viewport={"width": 320, "height": 640}) as page:
        for path in ("", "endpoints", f"endpoints/{row.id}", "keys", "settings"):
            page.goto(f"{server.url}/ui/{path}")
            assert fits(page), f"{path} is wider than the screen"


def test_forms_without_the_token_are_refused(browser, server):
    with visitor(browser, server, server.key) as page:
        cookies = {one["name"]: one["value"] for one in page.context.cookies()}
    for path in ("keys", "keys/1/revoke", "endpoints", "jobs/purge?all=1"):
        assert requests.post(f"{server.url}/ui/{path}", {"owner": "x"}, cookies=cookies, allow_redirects=False).status_code == 403
