"""Section 8 of docs/http.md: who may what."""

import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http.server import HTTPServer, SimpleHTTPRequestHandler

import pytest
import requests

from jobs import clock
from tests.stack import Api, wait_for
from tests.web.making import end, in_state
from tests.web.rules import ROOT, row, rule


def slug(answer) -> str:
    return answer.json()["type"].rpartition("/")[2]


@pytest.fixture(scope="module")
def nobody(house):
    """Has no key."""
    api = Api(house.url, "")
    del api.headers["Authorization"]
    return api


@pytest.fixture(scope="module")
def rules(tmp_path_factory) -> list[tuple[str, str, str, bool]]:
    """(method, rule, endpoint, whether it is marked public) of every route of the app, asked of the app itself."""
    script = """
import sys
from pathlib import Path
from app import create_app
from jobs import settings
from jobs.core import models
from jobs.db import Database
given = settings.load({}, data_dir=sys.argv[1], job_modules=sys.argv[2])
models.prepare(Database(given), given)
app = create_app(given)
for rule in app.url_map.iter_rules():
    view = app.view_functions[rule.endpoint]
    for method in rule.methods - {"OPTIONS", "HEAD"}:
        print(method, rule.rule, rule.endpoint, int(getattr(view, "public", False)), sep="\\t")
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path_factory.mktemp("map")), str(ROOT / "tests/web/types")], cwd=ROOT,
                          capture_output=True, text=True, check=True)
    return [(method, path, endpoint, public == "1") for method, path, endpoint, public in
            (line.split("\t") for line in done.stdout.splitlines())]


# Keys


@pytest.mark.parametrize("header", [row("8.1", header) for header in (
    None, "Bearer", "Bearer ", "Bearer acc_wrong", "Basic YTpi", "acc_wrong", "Bearer acc_wrong acc_wrong", "Bearer \u00e4")])
def test_without_a_valid_key_401(house, header):
    headers = {"Authorization": header.encode("latin-1")} if header else {}
    answer = requests.get(f"{house.url}/v1/jobs", headers=headers, timeout=60)
    assert (answer.status_code, slug(answer)) == (401, "unauthorized")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer ")


@rule("8.1", "8.3")
def test_a_key_is_shown_once_and_stored_as_a_hash(house):
    answer = house.admin.post("/v1/keys", json={"owner": "new", "role": "read", "name": "for a test"})
    made = answer.json()
    assert answer.status_code == 201 and made["key"].startswith("acc_") and answer.headers["Cache-Control"] == "no-store"
    assert Api(house.url, made["key"]).get("/v1/jobs").status_code == 200
    shown = house.admin.get(answer.headers["Location"]).json()
    assert "key" not in shown and (shown["owner"], shown["role"], shown["name"], shown["valid"]) == ("new", "read", "for a test", True)
    assert shown["expiresAt"] is None and shown["syncWait"] == 0
    assert shown == next(each for each in house.admin.get("/v1/keys").json()["keys"] if each["id"] == made["id"])
    stored = b"".join(path.read_bytes() for path in house.data.glob("accepted.db*"))
    assert b"for a test" in stored and made["key"].encode() not in stored


@rule("8.3")
def test_the_last_use_is_noted(house):
    made = house.admin.post("/v1/keys", json={"owner": "used"}).json()
    assert made["lastUsedAt"] is None
    Api(house.url, made["key"]).get("/v1/jobs")
    wait_for(lambda: house.admin.get(f"/v1/keys/{made['id']}").json()["lastUsedAt"])


@pytest.mark.parametrize(("body", "pointer"), [
    row("8.3", {}, "#/owner"), row("8.3", {"owner": "a b"}, "#/owner"), row("8.3", {"owner": "a\n"}, "#/owner"),
    row("8.3", {"owner": "a", "role": "root"}, "#/role"), row("8.3", {"owner": "a", "expiresAt": "2020-01-01T00:00:00Z"}, "#/expiresAt"),
    row("8.3", {"owner": "a", "syncWait": 51}, "#/syncWait"), row("8.3", {"owner": "a", "name": "\0"}, "#/name"),
    row("8.3", {"owner": "a", "key": "mine"}, "#/key")])
def test_unusable_keys(house, body, pointer):
    answer = house.admin.post("/v1/keys", json=body)
    assert answer.status_code == 422 and [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]


@rule("8.3", "8.2")
def test_keys_are_for_admins(house, alice, reader):
    for api in (alice, reader):
        for method, path in (("GET", "/v1/keys"), ("POST", "/v1/keys"), ("GET", "/v1/keys/1"), ("DELETE", "/v1/keys/1")):
            answer = api.request(method, path, json={"owner": "x"})
            assert (answer.status_code, slug(answer)) == (403, "forbidden")
    assert house.admin.delete("/v1/keys/999999").status_code == 404


@rule("8.4")
def test_a_revoked_key_ends_at_once_in_every_process(house):
    made = house.admin.post("/v1/keys", json={"owner": "alice"}).json()
    headers = {"Authorization": f"Bearer {made['key']}"}

    def get(_):
        return requests.get(f"{house.url}/v1/jobs", headers=headers, timeout=60).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(get, range(16))) == {200}
        assert [house.admin.delete(f"/v1/keys/{made['id']}").status_code for _ in range(2)] == [204, 204]
        assert set(pool.map(get, range(16))) == {401}
    shown = house.admin.get(f"/v1/keys/{made['id']}").json()
    assert shown["valid"] is False and shown["revokedAt"]


@rule("8.4")
def test_a_key_expires(strict):
    made_at = strict.admin.post("/v1/keys", json={"owner": "alice"}).json()["createdAt"]
    ends = clock.parse(made_at) + timedelta(hours=1)
    made = strict.admin.post("/v1/keys", json={"owner": "alice", "expiresAt": ends.isoformat()}).json()
    api = Api(strict.url, made["key"])
    assert api.get("/v1/jobs").status_code == 200
    strict.move(1 / 24)
    assert api.get("/v1/jobs").status_code == 401


# Role × verb × whose job


VERBS = {"see": ("GET", ""), "cancel": ("POST", ":cancel"), "delete": ("DELETE", ""), "retry": ("POST", ":retry"), "purge": ("POST", ":purge")}
STATE = {"see": "queued", "cancel": "queued", "delete": "queued", "retry": "failed", "purge": "failed"}
FINE = {"see": 200, "cancel": 200, "delete": 200, "retry": 202, "purge": 204}
MATRIX = [row("8.2", role, verb, whose, status, id=f"{role} {verb} {whose}") for verb in VERBS for role, whose, status in (
    ("submit", "own", FINE[verb]), ("submit", "foreign", 404), ("admin", "own", FINE[verb]), ("admin", "foreign", FINE[verb]),
    ("read", "own", 200 if verb == "see" else 403), ("read", "foreign", 200 if verb == "see" else 403))]


@pytest.fixture(scope="module")
def cast(house):
    """role → a session; all of one owner, who has a submit key as well."""
    return {role: house.session("matrix", role) for role in ("submit", "read", "admin")}


@pytest.mark.parametrize(("role", "verb", "whose", "status"), MATRIX)
def test_who_may_do_what(cast, bob, role, verb, whose, status):
    owner = cast["submit"] if whose == "own" else bob
    job = in_state(owner, STATE[verb])
    before = owner.get(f"/v1/jobs/{job['id']}").content
    method, suffix = VERBS[verb]
    answer = cast[role].request(method, f"/v1/jobs/{job['id']}{suffix}")
    assert answer.status_code == status
    if status >= 400:
        assert slug(answer) == {403: "forbidden", 404: "not-found"}[status]
        assert owner.get(f"/v1/jobs/{job['id']}").content == before
    end(owner, answer.json() if status == 202 else job)


@pytest.mark.parametrize(("role", "status"), [row("8.2", "submit", 202), row("8.2", "admin", 202), row("8.2", "read", 403)])
def test_who_may_submit(cast, role, status):
    for path, body in (("/v1/jobs", {"type": "test.parked"}), ("/v1/notes", {"text": "x"})):
        assert cast[role].post(path, json=body).status_code == status
    assert cast[role].post("/v1/files", data=b"x", headers={"Content-Type": "text/plain"}).status_code == (201 if status == 202 else 403)
    assert cast[role].post("/v1/jobs:cancel", json={"type": "test.parked"}).status_code == (200 if status == 202 else 403)


# A walk over every route


PUBLIC = {  # everything that answers without a key; /metrics asks for one by itself
    "/livez", "/readyz", "/healthz", "/openapi.json", "/docs", "/docs/<path:name>", "/problems/<slug>", "/problems/", "/metrics",
    "/v1/artifacts/<id:artifact_id>/signed/<token>", "/v1/artifacts/<id:artifact_id>/signed/<token>/<path:path>"}
VALUES = {"collection": "notes", "verb": "cancel", "name": "x", "path": "x", "slug": "gone", "filename": "x", "token": "x", "id": "x"}


@rule("8.6")
def test_exactly_these_routes_are_public(rules):
    own_guard = {path for _, path, _, _ in rules if path.startswith(("/ui", "/static"))} | {"/"}
    assert {path for _, path, _, public in rules if public} - own_guard == PUBLIC


def concrete(path: str, **ids) -> str:
    """The rule with values in it."""
    return re.sub(r"<(?:(\w+)(?:\([^)]*\))?:)?(\w+)>", lambda match: str(ids.get(match[2], VALUES.get(match[2], ids.get("any")))), path)


@rule("8.6", "8.1")
def test_every_other_route_wants_a_key(rules, nobody):
    walked = 0
    for method, path, _, public in rules:
        if public or path.startswith(("/ui", "/static")) or path == "/":
            continue
        answer = nobody.request(method, concrete(path, any=1), allow_redirects=False)
        assert (answer.status_code, slug(answer)) == (401, "unauthorized"), f"{method} {path}"
        walked += 1
    assert walked > 30
    assert nobody.get("/no/such/path").status_code == 401


@pytest.mark.parametrize(("path", "status"), [row("8.6", path, status) for path, status in (
    ("/livez", 200), ("/readyz", 200), ("/healthz", 200), ("/openapi.json", 200), ("/docs", 200), ("/problems/gone", 200),
    ("/problems/", 200), ("/ui/sign-in", 200), ("/metrics", 401), ("/v1/jobs", 401), ("/v1/artifacts/1/signed/x", 404))])
def test_what_is_public(nobody, path, status):
    assert nobody.get(path).status_code == status


@rule("8.6")
def test_metrics_are_for_those_who_see_all(alice, reader, strict):
    assert (alice.get("/metrics").status_code, reader.get("/metrics").status_code) == (403, 200)
    assert requests.get(f"{strict.url}/metrics", timeout=60).status_code == 200     # opened by a setting


@pytest.fixture(scope="module")
def belongings(house, bob):
    """Bob's things, by the name that they have in the routes; each with an id that never was."""
    job = bob.finished(bob.submit("test.note", text="bob's")["id"])
    file = bob.post("/v1/files", data=b"bob's", headers={"Content-Type": "text/plain"}).json()
    endpoint = bob.post("/v1/webhook-endpoints", json={"url": "http://127.0.0.1:9/", "events": ["*"]}).json()
    return {"job_id": job["id"], "resource_id": job["resource"].rpartition("/")[2], "artifact_id": file["id"], "endpoint_id": endpoint["id"]}


@rule("8.7", "8.2")
def test_every_route_answers_foreign_things_like_unknown_ones(rules, belongings, alice, reader):
    """The same bytes and, but for what differs with every answer, the same headers; a reader sees it and changes nothing."""
    walked = 0
    for method, path, _, public in rules:
        names = set(re.findall(r":(\w+)>", path)) & set(belongings)
        if not names or public or path.startswith("/ui"):
            continue
        foreign = alice.request(method, concrete(path, **belongings, any=1), json={} if method != "GET" else None)
        unknown = alice.request(method, concrete(path, **dict.fromkeys(belongings, 888888888), any=1), json={} if method != "GET" else None)
        assert (foreign.status_code, slug(foreign)) == (404, "not-found"), f"{method} {path}"
        assert foreign.content == unknown.content
        assert set(foreign.json()) - {"error"} == {"type", "title", "status"}      # the other dialects add an error
        varying = ("Date", "X-Request-Id", "RateLimit")
        assert {k: v for k, v in foreign.headers.items() if k not in varying} == {k: v for k, v in unknown.headers.items() if k not in varying}
        if method != "GET" and not path.endswith(":wait"):
            assert reader.request(method, concrete(path, **belongings, any=1), json={}).status_code == 403, f"{method} {path}"
        walked += 1
    assert walked > 15


@rule("4.8", "10.3")
def test_every_get_has_its_head_and_everything_its_options(rules, belongings, bob, house):
    for method, path, _, _ in rules:
        if path.startswith(("/ui", "/static", "/api/RequestStatus")) or path in ("/", "/v1/artifacts/<id:artifact_id>/signed/<token>"):
            continue
        url = concrete(path, **belongings, any=1)
        options = requests.options(house.url + url, timeout=60)
        assert options.status_code == 200 and method in options.headers["Allow"].split(", "), f"{method} {path}"
        if method == "GET":
            with bob.get(url, stream=True, allow_redirects=False) as full:
                head = bob.head(url)
                assert (head.status_code, head.content) == (full.status_code, b""), path
                assert head.headers.get("Content-Type") == full.headers.get("Content-Type"), path


@rule("8.7")
def test_lists_and_streams_hold_no_foreign_things(belongings, alice, bob, reader):
    for path, name in (("/v1/jobs?limit=200", "jobs"), ("/v1/notes?limit=200", "notes"), ("/v1/webhook-endpoints", "endpoints"),
                       ("/v1/jobs/changes?since=0&limit=200", "changes")):
        key = {"jobs": "job_id", "changes": "job_id", "notes": "resource_id", "endpoints": "endpoint_id"}[name]
        has = {who: str(belongings[key]) in {str(each["id"]) for each in api.get(path).json()[name]}
               for who, api in (("alice", alice), ("bob", bob), ("reader", reader))}
        assert not has["alice"] and has["bob"], path
    assert alice.get(f"/v1/jobs?ids={belongings['job_id']}&owner=bob").json()["jobs"] == []


# The dashboard's cookie


@rule("8.5")
def test_the_cookie_reads_and_does_nothing_else(house, alice):
    job = in_state(alice, "queued")
    browser = Api(house.url, "")
    del browser.headers["Authorization"]
    form = browser.get("/ui/sign-in").text
    token = re.search(r'name="csrf"[^>]*value="([^"]+)"|name="(_?csrf\w*)"[^>]*value="([^"]+)"', form)
    fields = {"key": alice.key} | ({} if not token else {(token[2] or "csrf"): token[1] or token[3]})
    answer = browser.post("/ui/sign-in", data=fields, headers={"Origin": house.url, "Sec-Fetch-Site": "same-origin"}, allow_redirects=False)
    assert answer.status_code in (302, 303) and "HttpOnly" in answer.headers["Set-Cookie"] and "SameSite=Lax" in answer.headers["Set-Cookie"]
    path = f"/v1/jobs/{job['id']}"
    assert browser.get(path).json() == alice.job(job["id"]) and browser.head(path).status_code == 200
    assert {browser.request(method, path + verb).status_code for method, verb in (
        ("POST", ":cancel"), ("POST", ":retry"), ("POST", ":purge"), ("DELETE", ""))} == {401}
    assert browser.post("/v1/jobs", json={"type": "demo.drill"}).status_code == 401
    crossed = browser.post(f"/ui/jobs/{job['id']}/cancel", headers={"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"})
    assert crossed.status_code == 403 and alice.job(job["id"])["status"] == "queued"
    end(alice, job)


# Other origins


ORIGIN, OTHER = "https://app.example", "https://other.example"
READABLE = {"Location", "Operation-Location", "Content-Location", "Retry-After", "ETag", "Link", "Preference-Applied",
            "Idempotency-Replayed", "RateLimit", "RateLimit-Policy"}


@pytest.mark.parametrize(("origin", "allowed"), [row("8.9", ORIGIN, True), row("8.9", OTHER, False), row("8.9", "null", False)])
def test_other_origins(house, alice, origin, allowed):
    job = in_state(alice, "queued")
    for path, status in ((f"/v1/jobs/{job['id']}", 200), ("/v1/jobs/888888888", 404), (f"/v1/jobs/{job['id']}?wait=0.1", 200)):
        answer = alice.get(path, headers={"Origin": origin})
        assert answer.status_code == status
        assert answer.headers.get("Access-Control-Allow-Origin") == (origin if allowed else None)
        assert "Origin" in answer.headers["Vary"] and "Access-Control-Allow-Credentials" not in answer.headers
        if allowed:
            assert set(answer.headers["Access-Control-Expose-Headers"].split(", ")) >= READABLE
    preflight = requests.options(f"{house.url}/v1/jobs", timeout=10, headers={
        "Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,idempotency-key"})
    assert preflight.headers.get("Access-Control-Allow-Origin") == (origin if allowed else None)
    assert ("POST" in preflight.headers.get("Access-Control-Allow-Methods", "")) is allowed
    if allowed:
        assert preflight.status_code == 204
        assert {"authorization", "content-type", "idempotency-key", "prefer", "if-match", "if-none-match", "last-event-id"} <= set(
            preflight.headers["Access-Control-Allow-Headers"].lower().split(", "))
    assert "Access-Control-Allow-Origin" not in requests.get(f"{house.url}/ui/sign-in", headers={"Origin": origin}, timeout=60).headers
    end(alice, job)


@rule("8.9")
@pytest.mark.browser
def test_a_page_of_another_origin_in_a_browser(house, alice, chromium_path):
    from playwright.sync_api import sync_playwright

    allowed = house.settings["cors_origins"].split()[1]
    port = int(allowed.rpartition(":")[2])
    pages = HTTPServer(("127.0.0.1", port), SimpleHTTPRequestHandler)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox", "--disable-gpu"])
        answers = []
        for origin in (allowed, f"http://localhost:{port}"):
            page = browser.new_page()
            page.goto(f"{origin}/")
            answers.append(page.evaluate("""async ([url, key]) => {
                try {
                    const answer = await fetch(url + "/v1/jobs", {method: "POST", body: '{"type": "test.parked"}', headers: {
                        "Authorization": "Bearer " + key, "Content-Type": "application/json", "Idempotency-Key": "page-1"}})
                    const read = ["Location", "Operation-Location", "Retry-After", "Link"].map(name => answer.headers.get(name))
                    return [answer.status, read.every(Boolean)]
                } catch (error) { return String(error) }
            }""", [house.url, alice.key]))
        browser.close()
    pages.shutdown()
    pages.server_close()
    assert answers[0] == [202, True] and "Failed to fetch" in answers[1]


# Rate limits


@rule("8.10")
def test_rate_limits_per_key_need_no_redis(stack):
    stack.settings |= {"rate_limit": "12", "web_processes": "1", "redis_url": "redis://127.0.0.1:1/0"}
    stack.process = stack.command("start")

    def answers():
        try:
            return requests.get(f"{stack.url}/livez", timeout=60).ok
        except (OSError, ValueError):
            return False

    wait_for(answers)
    api, other = stack.session("limited"), stack.session("limited")
    first = api.get("/v1/jobs")
    assert first.headers["RateLimit-Policy"] == '"default";q=12;w=60'
    assert re.fullmatch(r'"default";r=11;t=\d+', first.headers["RateLimit"])
    for _ in range(5):      # conditional and held GETs count a fifth
        api.get("/v1/jobs/1", headers={"If-None-Match": '"x"'})
    left = int(re.search(r"r=(\d+)", api.get("/v1/jobs/changes?wait=0").headers["RateLimit"])[1])
    assert left >= 9
    statuses = [api.get("/v1/jobs") for _ in range(14)]
    refused = statuses[-1]
    assert refused.status_code == 429 and slug(refused) == "too-many-requests" and refused.headers["Cache-Control"] == "no-store"
    reset = int(re.fullmatch(r'"default";r=0;t=(\d+)', refused.headers["RateLimit"])[1])
    assert int(refused.headers["Retry-After"]) >= reset >= 1
    assert other.get("/v1/jobs").status_code == 200 and requests.get(f"{stack.url}/livez", timeout=60).ok
    browser = requests.Session()        # the forms of the dashboard are no way around
    form = re.search(r'name="csrf" value="([^"]+)"', browser.get(f"{stack.url}/ui/sign-in").text)[1]
    browser.post(f"{stack.url}/ui/sign-in", data={"csrf": form, "key": api.key})
    assert browser.get(f"{stack.url}/ui/jobs").status_code == 200
    assert browser.post(f"{stack.url}/ui/new/demo.drill").status_code == 429
    time.sleep(reset)
    assert api.get("/v1/jobs").status_code == 200


@rule("8.8")
def test_a_tombstone_is_for_those_who_saw_the_job(alice, bob, reader, house):
    job = in_state(alice, "succeeded")
    alice.post(f"/v1/jobs/{job['id']}:purge")
    assert [api.get(f"/v1/jobs/{job['id']}").status_code for api in (alice, reader, house.admin, bob)] == [410, 410, 410, 404]
    assert bob.get(f"/v1/jobs/{job['id']}").content == bob.get("/v1/jobs/888888888").content
