"""The dashboard in a real browser, on the real server."""

import re
import socket

import pytest
import requests
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.e2e.browsing import fits, link_for, press, visitor
from tests.stack import Stack, wait_for

HOSTILE = ("<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> \u202egnp.exe ' \" &amp; "
           "{{7*7}}")


def fill_drill(page: Page, server: Stack, **values: str) -> None:
    page.goto(f"{server.url}/ui/new/demo.drill")
    for name, value in values.items():
        page.locator(f"[name='payload.{name}']").fill(value)
    press(page, "Submit")
    page.wait_for_url(re.compile(r"/ui/jobs/\d+$"))


def bar(page: Page) -> float:
    """Where the bar stands; -1 while there is none."""
    return page.evaluate("document.querySelector('[data-bar]')?.value ?? -1")


def sees_it_move(page: Page) -> None:
    """The bar takes several values and the job's end shows, all without a reload."""
    page.evaluate("window.sameDocument = true")
    seen: set[float] = set()
    wait_for(lambda: seen.add(bar(page)) or len(seen - {-1, 0, 100}) >= 3, what="the bar to move")
    expect(page.locator("article")).to_have_attribute("data-status", "succeeded")
    expect(page.locator(".big")).to_contain_text("Succeeded")
    assert page.evaluate("window.sameDocument")


def test_a_link_signs_in_once_and_only_when_its_button_is_pressed(browser, server, api):
    link = link_for(server, api.key)
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    for _ in range(2):      # whoever merely looks at it does not spend it
        page.goto(link)
    press(page, "Sign in", page.get_by_role("main"))
    expect(page).to_have_url(f"{server.url}/ui/")
    cookie = next(one for one in context.cookies() if one["name"] == "accepted")
    assert cookie["httpOnly"] and cookie["sameSite"] == "Lax"
    page.goto(link)
    press(page, "Sign in", page.get_by_role("main"))
    expect(page.get_by_role("alert")).to_contain_text("has been used")
    context.close()


def test_a_key_signs_in_and_leads_back_to_where_one_wanted_to_go(browser, server, api):
    job = api.submit("demo.drill", seconds=0)
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    page.goto(f"{server.url}/ui/jobs/{job['id']}")
    page.get_by_label("Key").fill("acc_wrong")
    press(page, "Sign in", page.get_by_role("main"))
    expect(page.get_by_role("alert")).to_contain_text("unknown")
    page.get_by_label("Key").fill(api.key)
    press(page, "Sign in", page.get_by_role("main"))
    expect(page).to_have_url(f"{server.url}/ui/jobs/{job['id']}")
    page.locator(".menu summary").click()
    press(page, re.compile("^Sign out$"))
    page.goto(f"{server.url}/ui/")
    expect(page.get_by_label("Key")).to_be_visible()
    context.close()


def test_submits_a_job_and_sees_its_bar_move(page, server):
    fill_drill(page, server, seconds="2.5", steps="25", value='{"answer": [1, 2]}')
    sees_it_move(page)
    expect(page.get_by_role("heading", name="Result").locator("..")).to_contain_text("answer")


def test_overview_shows_jobs_of_others_come_and_go(page, server, api):
    page.goto(f"{server.url}/ui/")
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate("window.sameDocument = true")
    job = api.submit("demo.drill", seconds=2, steps=20)
    expect(page.locator(f"#run-{job['id']}")).to_be_visible()
    expect(page.locator(f"#end-{job['id']}")).to_be_visible()
    expect(page.locator(f"#run-{job['id']}")).to_have_count(0)
    assert page.evaluate("window.sameDocument")


def test_cancels_a_running_job(page, server, api):
    job = api.submit("demo.drill", seconds=60, steps=600)
    page.goto(f"{server.url}/ui/jobs/{job['id']}")
    expect(page.locator("article")).to_have_attribute("data-status", "running")
    press(page, "Cancel")
    expect(page.locator("article")).to_have_attribute("data-status", "cancelled")
    assert api.job(job["id"])["status"] == "cancelled"
    press(page, "Try again")
    page.wait_for_url(lambda url: not url.endswith(job["id"]))
    again = page.url.rpartition("/")[2]
    assert api.job(again)["retryOf"] == job["id"]
    press(page, "Cancel")
    assert api.finished(again)["status"] == "cancelled"


def test_without_eventsource_the_page_polls(browser, server, api):
    with visitor(browser, server, api.key, script="delete window.EventSource") as page:
        fill_drill(page, server, seconds="3", steps="30")
        assert page.evaluate("typeof EventSource") == "undefined"
        sees_it_move(page)


def test_when_streams_fail_the_page_polls(browser, server, api):
    with visitor(browser, server, api.key) as page:
        page.route("**/events", lambda route: route.fulfill(status=502, body="no stream here"))
        fill_drill(page, server, seconds="3", steps="30")
        sees_it_move(page)


def test_nothing_is_missed_while_the_connection_is_down(browser, server, api):
    with visitor(browser, server, api.key, script="delete window.EventSource") as page:
        job = api.submit("demo.drill", seconds=1)
        page.goto(f"{server.url}/ui/")
        expect(page.locator("#live")).to_have_text("Live")
        page.context.set_offline(True)
        expect(page.locator("#live")).to_have_text("Reconnecting …")
        api.finished(job["id"])
        page.context.set_offline(False)
        expect(page.locator(f"#end-{job['id']}")).to_be_visible()
        expect(page.locator("#live")).to_have_text("Live")


def test_without_javascript_every_page_reads_and_every_button_works(browser, server, api):
    with visitor(browser, server, api.key, java_script_enabled=False) as page:
        fill_drill(page, server, seconds="60", steps="100")
        press(page, "Cancel")
        article = page.locator("article")
        wait_for(lambda: page.reload() and article.get_attribute("data-status") == "cancelled", what="the cancel")
        press(page, "Try again")
        press(page, "Cancel")
        for path in ("", "jobs", "jobs?status=cancelled", "types", "new"):
            page.goto(f"{server.url}/ui/{path}")
            expect(page.get_by_role("heading", level=1)).to_have_count(1)
        page.locator(".menu summary").click()
        page.get_by_label("Language").select_option("zh_Hans")
        press(page, "Apply")
        expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")


def test_messages_stand_at_the_fields(page, server):
    page.goto(f"{server.url}/ui/new/video.transcode")
    page.locator("[name='payload.sourceUrl']").fill("https://example.org/x.mov")
    press(page, "Submit")
    expect(page.locator(".field.choices .fault")).to_have_text("Missing data for required field.")
    expect(page.locator("[name='payload.sourceUrl']")).to_have_value("https://example.org/x.mov")
    page.get_by_label("720p").check()
    page.get_by_text("More options").click()
    page.locator("[name='option.maxAttempts']").fill("1000")
    press(page, "Submit")
    expect(page.locator("[name='option.maxAttempts']")).to_have_value("1000")
    expect(page.locator(".more .fault")).to_have_count(1)
    expect(page.get_by_label("720p")).to_be_checked()


def test_a_file_is_uploaded_with_the_form(page, server, api, tmp_path):
    source = tmp_path / "片段 one.txt"
    source.write_text("this is no video")
    page.goto(f"{server.url}/ui/new/video.transcode")
    page.locator("[name='file.sourceUrl']").set_input_files(source)
    page.get_by_label("720p").check()
    press(page, "Submit")
    page.wait_for_url(re.compile(r"/ui/jobs/\d+$"))
    job = api.finished(page.url.rpartition("/")[2])
    assert re.fullmatch(r"/v1/artifacts/\d+/content", job["payload"]["sourceUrl"])
    expect(page.locator("article")).to_have_attribute("data-status", "failed")
    expect(page.locator(".problem")).to_contain_text("no video stream")


def test_hostile_text_stays_text(page, server, api):
    value = {HOSTILE: [HOSTILE, "x" * 100_000, "\u0000\u0007"]}
    job = api.submit("demo.drill", {"tags": [HOSTILE[:100]]}, seconds=0, value=value,
                     artifact="evil\u202e<b>.txt", logLines=3)
    failed = api.submit("demo.drill", seconds=0, fail=HOSTILE)
    api.finished(job["id"]), api.finished(failed["id"])
    for path in ("", "jobs", f"jobs?q={HOSTILE[:20]}", f"jobs/{job['id']}", f"jobs/{failed['id']}",
                 f"new/demo.drill?like={job['id']}"):
        page.goto(f"{server.url}/ui/{path}")
        assert page.title() != "owned"
        assert page.locator("main img[src=x], main script, main b:text('.txt')").count() == 0
        assert fits(page), f"{path} is wider than the screen"
    page.goto(f"{server.url}/ui/jobs/{failed['id']}")
    expect(page.locator(".problem .detail")).to_contain_text("<script>")
    expect(page.locator(".problem .detail")).to_contain_text("⟨U+202E⟩")


def test_what_belongs_to_others_is_not_there(page, server):
    job = server.session("bob").submit("demo.drill", seconds=0)
    answer = page.goto(f"{server.url}/ui/jobs/{job['id']}")
    assert answer.status == 404
    expect(page.get_by_role("heading", level=1)).to_have_text("There is nothing here")
    page.goto(f"{server.url}/ui/jobs")
    assert page.locator(f"#job-{job['id']}").count() == 0


def test_forms_of_other_sites_are_refused(page, server, api):
    job = api.submit("demo.drill", seconds=60)
    cookies = {one["name"]: one["value"] for one in page.context.cookies()}
    page.goto(f"{server.url}/ui/jobs/{job['id']}")
    token = page.locator("form[action$=cancel] [name=csrf]").get_attribute("value")

    def post(data: dict, **headers: str) -> int:
        return requests.post(f"{server.url}/ui/jobs/{job['id']}/cancel", data, cookies=cookies, headers=headers,
                             allow_redirects=False).status_code

    assert post({}) == post({"csrf": "guessed"}) == 403
    assert post({"csrf": token}, **{"Sec-Fetch-Site": "cross-site"}) == 403
    assert post({"csrf": token}, Origin="https://evil.example") == 403
    assert requests.post(f"{server.url}/v1/jobs/{job['id']}:cancel", cookies=cookies).status_code == 401
    assert api.job(job["id"])["cancelRequestedAt"] is None and api.job(job["id"])["status"] != "cancelled"
    assert post({"csrf": token}, Origin=server.url) == 303
    assert requests.get(f"{server.url}/ui/sign-in?back=https://evil.example").status_code == 200
    for back in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        answer = requests.post(f"{server.url}/ui/preferences", {"csrf": token, "theme": "dark", "back": back},
                               cookies=cookies, allow_redirects=False)
        assert answer.headers["Location"] == "/ui/"


def test_pages_fit_a_phone(browser, server, api):
    job = api.submit("demo.drill", {"tags": ["w" * 100]}, seconds=0, value="长" * 500)
    api.finished(job["id"])
    with visitor(browser, server, api.key, viewport={"width": 320, "height": 640}) as page:
        for path in ("", "jobs", f"jobs/{job['id']}", "new/demo.drill", "new/video.transcode", "types"):
            page.goto(f"{server.url}/ui/{path}")
            assert fits(page), f"{path} is wider than the screen"
        page.set_viewport_size({"width": 375, "height": 700})
        page.goto(f"{server.url}/ui/")
        page.wait_for_selector("#live:not([hidden])")
        brand, tools = (page.locator(name).bounding_box() for name in (".brand", ".tools"))
        assert abs(brand["y"] + brand["height"] / 2 - tools["y"] - tools["height"] / 2) < 8, "one row"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(browser, server, api, theme):
    axe = Axe()
    done = api.submit("demo.drill", {"tags": ["nightly"]}, seconds=0, partial=["b"], logLines=5, artifact="notes.txt",
                      value={"a": [1, {"b": "c" * 300}]})
    api.finished(done["id"])
    running = api.submit("demo.drill", seconds=60, steps=10)
    waiting = api.submit("demo.drill", seconds=0)
    with visitor(browser, server, api.key, color_scheme=theme) as page:
        for path in ("", "jobs", f"jobs/{done['id']}", f"jobs/{running['id']}", "new/video.transcode", "types",
                     "jobs/999999", "../problems/"):
            page.goto(f"{server.url}/ui/{path}")
            found = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
            assert not found, [(path, one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]
    for job in (waiting, running):
        api.post(f"/v1/jobs/{job['id']}:cancel")


def test_under_a_path_and_over_a_restart_of_the_server(browser, stack):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    stack.settings |= {"port": str(port), "public_url": f"http://127.0.0.1:{port}/team/jobs"}
    stack.start()
    api = stack.session("alice")
    with visitor(browser, stack, api.key) as page:
        assert page.url == f"http://127.0.0.1:{port}/team/jobs/ui/"
        expect(page.locator("#live")).to_have_text("Live")
        page.evaluate("window.sameDocument = true")
        stack.restart()
        job = api.submit("demo.drill", seconds=0)
        expect(page.locator(f"#end-{job['id']}")).to_be_visible()
        expect(page.locator("#live")).to_have_text("Live")
        assert page.evaluate("window.sameDocument")
        page.get_by_role("link", name="New job").click()
        page.get_by_role("link", name="Drill").click()
        press(page, "Submit")
        page.wait_for_url(re.compile(r"/team/jobs/ui/jobs/\d+$"))
        expect(page.locator("article")).to_have_attribute("data-status", "succeeded")
