"""Values that nobody means: NUL, numbers beyond 64 bit, far too many. On both databases none of them is a fault of ours."""

import re
import stat

import pytest
import requests

from tests.stack import Stack

HUGE = "9" * 40


def signed_in(server):
    """A browser's session of the admin; `csrf` is the token of its forms."""
    def token():
        return re.search(r'name="csrf" value="([^"]+)"', browser.get(f"{server.url}/ui/types" if browser.cookies else page).text)[1]

    browser, page = requests.Session(), f"{server.url}/ui/sign-in"
    assert browser.post(page, data={"key": server.key, "csrf": token()}, allow_redirects=False).status_code == 303
    browser.csrf = token()
    return browser


@pytest.fixture(scope="module")
def on_sqlite(house):
    return house


@pytest.fixture
def on_postgres(tmp_path, postgres_url):
    with Stack(tmp_path, database_url=postgres_url, job_modules="tests/web/types") as stack:
        yield stack


@pytest.fixture(params=["on_sqlite", pytest.param("on_postgres", marks=pytest.mark.postgres)])
def given(request):
    return request.getfixturevalue(request.param)


def test_odd_values_are_no_fault_of_ours(given):
    admin = given.admin
    job = admin.submit("demo.drill", {"tags": ["\0"]}, value="\0", seconds=0, logLines=1, artifact="a\0b.txt", fail="\0")
    assert admin.finished(job["id"])["tags"] == ["\0"]
    admin.finished(admin.submit("demo.drill", seconds=0, partial=["\0"])["id"])
    browser = signed_in(given)
    answers = []
    for path in (f"/ui/jobs?before={HUGE}", "/ui/jobs?before=²", "/ui/jobs?type=%00", "/ui/jobs?q=%00", f"/ui/new/demo.drill?like={HUGE}",
                 "/ui/new/demo.drill?like=²", f"/ui/jobs/{HUGE}", "/ui/sign-in/%00", "/ui/new/%00", f"/ui/jobs/{job['id']}"):
        answers.append(browser.get(given.url + path))
    for path in ("/v1/jobs?q=%00", "/v1/jobs?owner=%00", "/v1/jobs?tag=%00", "/v1/jobs?type=%00", f"/v1/jobs?ids={HUGE}", f"/v1/jobs/{HUGE}",
                 "/v1/jobs?" + "tag=a&" * 400, f"/v1/jobs/changes?since={HUGE}", f"/v1/jobs/{job['id']}/logs?after={HUGE}",
                 "/v1/operations?filter=%00", "/v1/operations?filter=name%3D%22%00%22", "/v1/operations/%00", f"/api/operations/{HUGE}",
                 "/v1/artifacts/1/content/%00", f"/v1/artifacts/{HUGE}", "/v1/callback-secrets?origin=%00", "/v1/jobs?createdAfter=%00"):
        answers.append(admin.get(path))
    for path, body in (("/v1/jobs:cancel", {"q": "\0"}), ("/v1/jobs:cancel", {"owner": "\0"}), ("/v1/jobs:cancel", {"tag": "\0"}),
                       ("/v1/jobs:cancel", {"tag": ["x"] * 2000}), ("/v1/jobs:cancel", {"status": ["queued"] * 50_000}),
                       ("/v1/jobs:cancel", {"type": ["demo.drill"] * 50_000}), ("/v1/jobs:cancel", {"ids": [10**30]}),
                       ("/v1/jobs", {"type": "\0"}), ("/v1/jobs", {"type": "demo.drill", "callbackUrl": "http://x/\0"}),
                       ("/v1/keys", {"owner": "\0"}), ("/v1/keys", {"owner": "x", "name": "\0"}), ("/v1/callback-secrets:rotate", {"origin": "\0"}),
                       ("/v1/webhook-endpoints", {"url": "http://127.0.0.1/", "events": ["*"], "description": "\0"}),
                       ("/v1/webhook-endpoints", {"url": "http://127.0.0.1/", "events": ["\0"]})):
        answers.append(admin.post(path, json=body))
        assert answers[-1].status_code == 422, (path, answers[-1].text)
    answers.append(admin.post("/v1/files?name=%00", data=b"x", headers={"Content-Type": "text/html"}))
    assert [(one.request.method, one.url[:100], one.status_code) for one in answers if one.status_code >= 500] == []


def test_a_form_sent_with_an_odd_token_is_no_fault_of_ours(given):
    browser = signed_in(given)
    fields = {"csrf": browser.csrf, "once": "\0", "payload.seconds": "0", "option.tags": "\0"}
    answer = browser.post(f"{given.url}/ui/new/demo.drill", data=fields, allow_redirects=False)
    assert answer.status_code == 303
    assert browser.post(f"{given.url}/ui/new/demo.drill", data=fields, allow_redirects=False).headers["Location"] == answer.headers["Location"]


@pytest.mark.parametrize("name", ["q", "owner", "createdAfter", "createdBefore", "updatedAfter"])
def test_a_bulk_filter_is_never_read_in_part(house, name):
    values = ["2026-01-01T00:00:00Z"] * 2 if name.endswith(("After", "Before")) else ["nobody", "alice"]
    answer = house.admin.post("/v1/jobs:cancel", json={name: values, "dryRun": True})
    assert answer.status_code == 422 and answer.json()["errors"][0]["pointer"] == f"#/{name}"


def test_what_the_data_folder_holds_is_private(house):
    assert stat.S_IMODE(house.data.stat().st_mode) == 0o700
    for path in house.data.iterdir():
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode & 0o077 == 0 or path.is_socket(), (path.name, oct(mode))
