"""The overview's figures, workers and warnings, in a real browser on the real server."""

import re

from playwright.sync_api import expect

from jobs import clock
from jobs.core import lifecycle
from jobs.webhooks import receivers
from tests.e2e.browsing import database, visitor


def test_workers_are_seen_idle_and_at_work(browser, server):
    api = server.session("klara")
    with visitor(browser, server, api.key) as page:
        panel = page.get_by_role("region", name="Workers")
        expect(panel.locator("li").first).to_contain_text("idle")
        job = api.submit("demo.drill", seconds=20, steps=40)
        expect(panel.get_by_role("link", name=f"#{job['id']}")).to_be_visible()
        with visitor(browser, server, server.session("lena").key) as other:
            theirs = other.get_by_role("region", name="Workers")
            expect(theirs).to_contain_text("busy")
            assert theirs.get_by_role("link").count() == 0
        api.post(f"/v1/jobs/{job['id']}:cancel")


def test_the_chart_counts_what_ended(browser, server):
    api = server.session("maya")
    api.finished(api.submit("demo.drill", seconds=0)["id"])
    api.finished(api.submit("demo.drill", seconds=0, fail="as asked")["id"])
    with visitor(browser, server, api.key, java_script_enabled=False) as page:
        panel = page.get_by_role("region", name="Throughput")
        expect(panel.locator(".sums")).to_contain_text("1 succeeded")
        for name in ("Hour", "Week", "Day"):
            panel.get_by_role("link", name=name).click()
            page.wait_for_url(f"**span={name.lower()}")
            expect(panel.get_by_role("link", name=name)).to_have_attribute("aria-current", "true")
            expect(panel.get_by_role("img")).to_have_attribute("aria-label", "2 jobs ended")
            assert panel.locator("rect.failed").count() == 1


def test_a_banner_tells_what_is_down(browser, server):
    api = server.session("nora")
    with visitor(browser, server, api.key) as page:
        assert page.get_by_role("alert").count() == 0
        with database(server) as opened:
            row = opened.write(lambda tx: receivers.register(tx, "nora", "https://receiver.invalid/hook", ["*"]))
            opened.write(lambda tx: receivers.disable(tx, row.id, f"Every delivery since {clock.wire(clock.now())} has failed."))
        page.goto(f"{server.url}/ui/")
        expect(page.get_by_role("alert")).to_have_text(re.compile("Callbacks to 1 endpoint fail"))


def test_without_workers_the_banner_says_so(browser, stack):
    stack.settings |= {"workers": "0", "lease": "600"}
    stack.start()
    api = stack.session("olga")
    lost, job = (api.submit("demo.drill", seconds=0) for _ in range(2))
    with database(stack) as opened:     # a worker took one, and has not been heard of since
        opened.write(lambda tx: lifecycle.start(tx, int(lost["id"]), "gone-1.4711"))
        opened.write(lambda tx: tx.run("UPDATE leases SET started_at = :then", then=clock.after(-60)))
    with visitor(browser, stack, api.key) as page:
        expect(page.get_by_role("alert")).to_contain_text("No worker has been seen")
        expect(page.locator(f"#wait-{job['id']}")).to_contain_text("no worker serves the queue default")
        silent = page.locator(".workers li").filter(has_text="gone-1.4711")
        expect(silent).to_contain_text(f"gives no sign of life Drill #{lost['id']}")
