"""The form filled in like an earlier job: what it shows, what it keeps, and when it is a retry."""

import json
import re
from datetime import timedelta

import pytest

from jobs import clock
from tests.web.making import accept_many, database
from tests.web.pages import Browser

OPTIONS = {"priority": "high", "tags": ["a", "b, c"], "callbackUrl": "https://example.com/hook", "timeout": 77, "maxAttempts": 1}


@pytest.fixture(scope="module")
def amy(house):
    return house.session("amy")


@pytest.fixture(scope="module")
def browser(house, amy):
    return Browser(house.url).sign_in(amy.key)


def private(house, job_id: str) -> dict:
    """The payload as the handler gets it."""
    with database(house) as opened:
        row = opened.read().one("SELECT payload, payload_private FROM jobs WHERE id = :id", id=int(job_id))
    return json.loads(row.payload_private or row.payload)


def test_a_failed_job_is_retried_with_other_options(amy, browser):
    first = amy.finished(amy.submit("test.note", OPTIONS | {"callbackUrl": None}, text="x", fate="fail")["id"])
    form = browser.form("test.note", first["id"])
    assert (form["payload.text"], form["payload.fate"]) == ("x", "fail")
    assert (form["option.priority"], form["option.tags"], form["option.timeout"], form["option.maxAttempts"]) == ("high", "a, b, c", "77", "1")
    again = amy.job(browser.submit("test.note", form, **{"option.priority": "low", "option.timeout": ""}))
    assert (again["retryOf"], again["resource"], again["tags"]) == (first["id"], first["resource"], ["a", "b, c"])
    assert (again["priority"], again["timeout"], again["maxAttempts"]) == ("low", 3600, 1)


def test_with_another_payload_it_is_a_new_job(amy, browser):
    first = amy.finished(amy.submit("test.note", OPTIONS | {"callbackUrl": None}, text="x", fate="fail")["id"])
    new = amy.job(browser.submit("test.note", browser.form("test.note", first["id"]), **{"payload.fate": "ready"}))
    assert new["retryOf"] is None and new["resource"] != first["resource"]
    assert new["payload"] == {"text": "x", "fate": "ready"} and (new["priority"], new["timeout"]) == ("high", 77)


def test_a_succeeded_job_is_done_anew_and_not_retried(amy, browser):
    first = amy.finished(amy.submit("test.note", text="x")["id"])
    assert "retry of it" not in browser.get(f"/ui/new/test.note?like={first['id']}").text
    new = amy.job(browser.submit("test.note", browser.form("test.note", first["id"])))
    assert new["retryOf"] is None and new["payload"] == {"text": "x"}


def test_what_the_form_cannot_tell_apart_is_the_same(amy, browser):
    first = amy.finished(amy.submit("demo.drill", seconds=0, fail="as asked", value=None, partial=[], failAttempts=0)["id"])
    again = amy.job(browser.submit("demo.drill", browser.form("demo.drill", first["id"])))
    assert again["retryOf"] == first["id"] and again["payload"] == first["payload"]
    amy.finished(again["id"])


def test_a_file_stays_a_reference(amy, browser):
    url = amy.post("/v1/files?name=a.txt", data=b"text").json()["url"]
    first = amy.finished(amy.submit("test.form", source=url, names=["a", "b"])["id"])
    form = browser.form("test.form", first["id"])
    assert "a.txt" in browser.get(f"/ui/new/test.form?like={first['id']}").text, "its name is told"
    assert form["payload.source"] == url and form["payload.names"] == "a\nb"
    new = amy.job(browser.submit("test.form", form, **{"payload.count": "3"}))
    assert new["payload"] == {"source": url, "count": 3, "names": ["a", "b"]} and new["retryOf"] is None


SECRET = {"token": "s3cret", "logins": [{"user": "u", "password": "pass1"}, {"user": "v", "password": "pass2"}], "fate": "fail"}


def test_a_secret_is_kept_replaced_or_left_out(house, amy, browser):
    first = amy.finished(amy.submit("test.secret", **SECRET)["id"])
    page = browser.get(f"/ui/new/test.secret?like={first['id']}").text
    assert not any(text in page for text in ("s3cret", "pass1", "pass2")) and "Keep the earlier secret" in page
    form = browser.form("test.secret", first["id"])
    assert (form["payload.token"], form["keep.token"]) == ("", "1") and form["payload.logins"].count("•••") == 2

    same = browser.submit("test.secret", form)
    assert private(house, same) == SECRET and amy.job(same)["retryOf"] == first["id"]
    changed = browser.submit("test.secret", browser.form("test.secret", first["id"]), **{"payload.fate": "succeed"})
    assert private(house, changed) == SECRET | {"fate": "succeed"} and amy.job(changed)["retryOf"] is None
    logins = json.dumps([SECRET["logins"][0] | {"password": "•••"}])
    fewer = browser.submit("test.secret", browser.form("test.secret", first["id"]), **{"payload.logins": logins, "payload.token": "n3w"})
    assert private(house, fewer) == {"token": "n3w", "logins": SECRET["logins"][:1], "fate": "fail"}

    form = browser.form("test.secret", first["id"])
    del form["keep.token"]
    assert "Missing data for required field." in browser.submit("test.secret", form)
    moved = json.dumps([{"user": "x", "password": "p"}] * 2 + [{"user": "w", "password": "•••"}])
    refused = browser.submit("test.secret", browser.form("test.secret", first["id"]), **{"payload.logins": moved})
    assert "The earlier secret is not at hand." in refused and "s3cret" not in refused


def test_somebody_elses_secret_serves_an_unchanged_retry_alone(house, amy):
    root = house.session("root", "admin")
    first = amy.finished(amy.submit("test.secret", **SECRET)["id"])
    browser = Browser(house.url).sign_in(root.key)
    form = browser.form("test.secret", first["id"])
    assert "not at hand" in browser.submit("test.secret", form, **{"payload.fate": "succeed"})
    again = amy.job(browser.submit("test.secret", form))
    assert (again["retryOf"], again["owner"]) == (first["id"], "amy") and private(house, again["id"]) == SECRET


def test_a_foreign_a_purged_and_a_missing_job_look_alike(house, amy, browser):
    foreign = house.session("ben").submit("test.secret", **SECRET)["id"]
    purged = amy.finished(amy.submit("test.secret", **SECRET)["id"])["id"]
    form = browser.form("test.secret", purged)
    assert amy.post(f"/v1/jobs/{purged}:purge").ok
    pages = {re.sub('name="once" value="[^"]+"', "", browser.get(f"/ui/new/test.secret?like={one}").text.partition("<main")[2])
             for one in (foreign, purged, 10**9)}
    assert len(pages) == 1 and "the form is empty" in pages.pop()
    assert "not at hand" in browser.submit("test.secret", form), "it was purged while the form stood open"
    kept = browser.submit("test.secret", form, **{"payload.token": "n3w", "payload.logins": ""})
    assert amy.job(kept)["retryOf"] is None


def cancelled(house, amy, type_name: str, payload: dict) -> str:
    """A job that was accepted when its type was another."""
    [job_id] = accept_many(house, "amy", 1, type=type_name, payload=json.dumps(payload))
    assert amy.delete(f"/v1/jobs/{job_id}").json()["status"] == "cancelled"
    return str(job_id)


def test_a_type_that_is_gone(house, amy, browser):
    job_id = cancelled(house, amy, "long.gone", {"a": 1})
    page = browser.get(f"/ui/jobs/{job_id}").text
    assert "does not have its job type any more" in page and "like=" not in page and f"/ui/jobs/{job_id}/retry" not in page
    assert browser.get(f"/ui/new/long.gone?like={job_id}").status_code == 404
    answer = browser.post(f"/ui/jobs/{job_id}/retry", {"csrf": browser.token()})
    assert answer.status_code == 200 and "It cannot be tried again" in answer.text


def test_a_payload_that_does_not_fit_any_more(house, amy, browser):
    job_id = cancelled(house, amy, "test.form", {"source": "https://example.com/", "mode": "slow", "count": 12, "old": 1})
    assert "Change and try again" in browser.get(f"/ui/jobs/{job_id}").text
    page = browser.post(f"/ui/jobs/{job_id}/retry", {"csrf": browser.token()})
    assert page.url.endswith(f"/ui/new/test.form?like={job_id}")
    for text in ("does not fit this job type any more", "There are 1 to 9, not 12.", "Must be one of: fast, good.", "any more: old."):
        assert text in page.text.replace("&#39;", "'"), text
    form = browser.form("test.form", job_id)
    assert (form["payload.mode"], form["payload.count"]) == ("", "12")
    new = amy.job(browser.submit("test.form", form, **{"payload.count": "9"}))
    assert new["payload"] == {"source": "https://example.com/", "count": 9} and new["retryOf"] is None


def test_a_time_that_lies_ahead_is_kept(amy, browser):
    later = clock.wire((clock.now() + timedelta(days=2)).replace(microsecond=0))
    job = amy.submit("test.note", {"notBefore": later}, text="x")
    amy.delete(f"/v1/jobs/{job['id']}")
    again = amy.job(browser.submit("test.note", browser.form("test.note", job["id"])))
    assert (again["notBefore"], again["retryOf"]) == (later, job["id"])
    amy.delete(f"/v1/jobs/{again['id']}")
