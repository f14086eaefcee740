"""Browsers that sign in: what ends their sessions, for every copy of the cookie; and pages that begin none."""

import pytest
import requests

from app import create_app
from jobs import clock, settings
from jobs.core import access
from jobs.db import Database
from tests.web.pages import Browser


@pytest.fixture
def carol(house):
    return house.session("carol")


def test_signing_out_ends_every_copy_of_the_cookie_and_no_other_browser(house, carol):
    mine, other = (Browser(house.url).sign_in(carol.key) for _ in range(2))
    stolen = mine.copy()
    assert stolen.is_in()
    mine.post("/ui/sign-out", {"csrf": mine.token()})
    assert not mine.is_in() and not stolen.is_in() and other.is_in()
    assert stolen.get("/v1/jobs").status_code == 401
    assert stolen.get("/ui/jobs", allow_redirects=False).headers["Location"].startswith("/ui/sign-in")
    assert carol.get("/v1/jobs").status_code == 200, "the key itself goes on"


def test_signing_out_everywhere_ends_those_of_the_key(house, carol):
    first, second, foreign = Browser(house.url).sign_in(carol.key), Browser(house.url).sign_in(carol.key), Browser(house.url).sign_in(house.session("dave").key)
    assert "everywhere" in first.get("/ui/").text
    first.post("/ui/sign-out", {"csrf": first.token(), "everywhere": "1"})
    assert not first.is_in() and not second.is_in() and foreign.is_in()


def test_revoking_the_key_ends_its_sessions(house, carol):
    browser, admin = Browser(house.url).sign_in(carol.key), house.session("root", "admin")
    [key] = [one for one in admin.get("/v1/keys").json()["keys"] if one["hint"] == carol.key[:8] and one["owner"] == "carol"
             and not one["revokedAt"]][:1]
    assert admin.delete(f"/v1/keys/{key['id']}").ok
    assert not browser.is_in()


def test_a_stream_ends_when_its_browser_signs_out(house, carol):
    browser = Browser(house.url).sign_in(carol.key)
    with browser.copy().get("/v1/events", stream=True) as stolen:
        lines = stolen.iter_lines()
        next(lines)
        browser.post("/ui/sign-out", {"csrf": browser.token()})
        with pytest.raises(requests.RequestException):      # cut
            list(lines)


def test_a_session_ends_with_its_time(house, carol):
    db = Database(settings.load(house.environment))
    key_id = access.authenticate(db.read(), carol.key).key_id
    over, new = (db.write(lambda tx, seconds=seconds: access.begin_session(tx, key_id, seconds)) for seconds in (0, 600))
    assert access.by_session(db.read(), over) is None
    found = access.by_session(db.read(), new)
    assert found.owner == "carol" and found.session in access.live_sessions(db.read(), [found.session, "x"])
    db.write(lambda tx: access.begin_session(tx, key_id, 600))
    assert db.read().value("SELECT count(*) FROM sessions WHERE expires_at <= :now", now=clock.wire(clock.now())) == 0
    db.close()


def test_a_cookie_of_an_older_release_opens_nothing(house, carol):
    app = create_app(settings.load(house.environment))
    browser = Browser(house.url)
    browser.cookies["accepted"] = app.session_interface.get_signing_serializer(app).dumps({"key_id": 1})
    assert not browser.is_in()


def _token(house, browser) -> str:
    app = create_app(settings.load(house.environment))
    return app.session_interface.get_signing_serializer(app).loads(browser.cookies["accepted"])["signed_in"]


def test_a_session_in_use_goes_on(house, carol):
    """A screen on a wall does not fall asleep after a month; its session's end is moved once a day."""
    browser = Browser(house.url).sign_in(carol.key)
    db = Database(settings.load(house.environment))
    found = access.by_session(db.read(), _token(house, browser))
    db.write(lambda tx: access.renew_session(tx, found.session, 86400))
    answer = browser.get("/ui/region")
    assert answer.status_code == 200 and "Set-Cookie" in answer.headers
    assert db.read().value("SELECT expires_at FROM sessions WHERE hash = :hash", hash=found.session) > clock.after(29 * 86400)
    assert "Set-Cookie" not in browser.get("/ui/region").headers
    db.close()


PUBLIC = ["/problems/", "/problems/gone", "/problems/nothing-like-it", "/docs", "/openapi.json", "/livez", "/readyz", "/healthz", "/",
          "/ui/", "/ui/icon-40.svg", "/static/dashboard.css", "/nothing/here", "/v1/jobs"]


@pytest.mark.parametrize("path", PUBLIC)
def test_a_public_page_sets_no_cookie(house, path):
    assert "Set-Cookie" not in requests.get(house.url + path, allow_redirects=False, timeout=60).headers


def test_every_page_without_a_caller_is_among_them(house):
    """The views that need no key, apart from those that take one."""
    app = create_app(settings.load(house.environment))
    public = {rule.rule for rule in app.url_map.iter_rules() if "GET" in rule.methods and not rule.arguments
              and getattr(app.view_functions[rule.endpoint], "public", False)}
    assert public - set(PUBLIC) == {"/metrics"}


def test_reading_renews_no_cookie(house, carol):
    browser = Browser(house.url).sign_in(carol.key)
    for path in ("/v1/jobs", "/ui/", "/ui/jobs", "/problems/gone"):
        assert "Set-Cookie" not in browser.get(path).headers, path


def test_a_public_page_changes_language_without_a_session(house):
    browser = Browser(house.url)
    assert 'name="csrf"' not in browser.get("/problems/gone").text
    page = browser.post("/ui/preferences", {"language": "zh_Hant", "back": "/problems/gone"})
    assert page.url.endswith("/problems/gone") and 'lang="zh-Hant"' in page.text
    refused = browser.post("/ui/preferences", {"language": "en"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert refused.status_code == 403 and browser.cookies["language"] == "zh_Hant"
