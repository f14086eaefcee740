"""The file of a form is on its way before the form is: bar, cancel, refusals; in a real browser on the real server."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browsing import press, visitor
from tests.e2e.wire import Wire
from tests.stack import wait_for

LONG = 24_000_000       # bytes: more than the sockets on the way hold


@pytest.fixture(scope="module")
def long_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("upload") / "片段 one.mov"
    path.write_bytes(b"no video" * (LONG // 8))
    return path


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.mov"
    path.write_bytes(b"no video")
    return path


@pytest.fixture
def wire(server):
    made = Wire(server.url)
    yield made
    made.close()


def form(page: Page, url: str) -> None:
    page.goto(f"{url}/ui/new/video.transcode")


def scratch(server) -> list[str]:
    return [path.name for path in server.data.rglob("upload-*")]


def test_an_upload_is_seen_cancelled_and_done_again(page, server, api, wire, long_file):
    form(page, wire.url)
    chooser = page.get_by_label("a file to upload")
    bar = page.get_by_role("progressbar", name="how much has been uploaded")
    with wire.holding("/ui/files"):
        chooser.set_input_files(long_file)
        expect(bar).to_be_visible()
        wait_for(lambda: 0 < bar.evaluate("bar => bar.value") < 100, what="the bar to move")
        expect(page.locator(".upload span")).to_have_text(re.compile(r"片段 one\.mov · \d+ %"))
        page.get_by_role("button", name="Cancel the upload").focus()
        page.keyboard.press("Enter")
        expect(page.locator(".upload")).to_be_hidden()
        expect(chooser).to_be_focused()
    wait_for(lambda: not scratch(server), what="the piece to be thrown away")
    with wire.holding("/ui/files"):
        chooser.set_input_files(long_file)
        page.get_by_label("720p").check()
        page.get_by_role("button", name="Submit").click()       # too early: the form waits for its file
        expect(page.locator("[data-upload] [role=status]")).to_have_text("The form is sent when the file is there.")
        with page.expect_navigation():
            wire.go()
    page.wait_for_url(re.compile(r"/ui/jobs/\d+$"))
    job = api.finished(page.url.rpartition("/")[2])
    name = job["payload"]["sourceUrl"].removesuffix("/content")
    assert api.get(name).json()["size"] == LONG and api.get(name).json()["name"] == "片段 one.mov"


def test_a_refused_form_does_not_send_its_file_again(page, server, small):
    form(page, server.url)
    page.get_by_label("a file to upload").set_input_files(small)
    expect(page.locator(".upload span")).to_have_text("small.mov has been uploaded.")
    address = page.locator("[name='payload.sourceUrl']").input_value()
    assert re.fullmatch(r"/v1/artifacts/\d+/content", address)
    press(page, "Submit")
    expect(page.locator(".field.choices .fault")).to_have_text("Missing data for required field.")
    expect(page.locator("[name='payload.sourceUrl']")).to_have_value(address)
    page.get_by_label("a file to upload").set_input_files(small)
    page.get_by_role("button", name="Take it out").click()
    expect(page.locator("[name='payload.sourceUrl']")).to_have_value("")


def test_what_is_wrong_with_a_file_stands_at_the_field(page, server, wire, small):
    form(page, wire.url)
    chooser, fault = page.get_by_label("a file to upload"), page.locator("[data-upload] [role=alert]")
    page.evaluate("document.querySelector('[data-upload]').dataset.limit = 3")
    chooser.set_input_files(small)
    expect(fault).to_have_text(re.compile("A file may have .* at most."))
    expect(chooser).to_have_attribute("aria-invalid", "true")
    page.evaluate("document.querySelector('[data-upload]').dataset.limit = 1e9")
    wire.refuse()
    chooser.set_input_files(small)
    expect(fault).to_have_text("The connection was cut before the file was there.")
    wire.mend()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".upload span")).to_have_text("small.mov has been uploaded.")
    expect(fault).to_be_hidden()
    page.evaluate("document.querySelector('.form [name=csrf]').value = 'guessed'")
    chooser.set_input_files(small)
    expect(fault).to_have_text("Reload the page and send the form again.")
    assert not scratch(server)


def test_without_javascript_the_file_travels_with_the_form(browser, server, api, small):
    with visitor(browser, server, api.key, java_script_enabled=False) as page:
        form(page, server.url)
        page.locator("[name='file.sourceUrl']").set_input_files(small)
        page.get_by_label("720p").check()
        press(page, "Submit")
        page.wait_for_url(re.compile(r"/ui/jobs/\d+$"))
        assert re.fullmatch(r"/v1/artifacts/\d+/content", api.job(page.url.rpartition("/")[2])["payload"]["sourceUrl"])
