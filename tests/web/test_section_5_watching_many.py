"""Section 5 of docs/http.md: lists and the feed of changes."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from urllib.parse import quote

import pytest
import requests

from tests.stack import wait_for
from tests.web.making import accept_many, database, end, in_state
from tests.web.rules import row, rule


def slug(answer) -> str:
    return answer.json()["type"].rpartition("/")[2]


def ids(answer) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [job["id"] for job in answer.json()["jobs"]]


@pytest.fixture(scope="module")
def lister(house):
    """Owns the jobs that the filters are tried on."""
    return house.session("lister")


@pytest.fixture(scope="module")
def some(lister):
    """A few jobs, oldest first, by name."""
    made = {
        "old": lister.submit("test.parked", {"tags": ["nightly", "eu"]}),
        "note": lister.submit("test.note", {"tags": ["nightly"]}, text="the quick 中文文档 100% b_x"),
        "failed": lister.submit("demo.drill", {"tags": ["a\"b"]}, seconds=0, fail="disk quota exceeded"),
        "new": lister.submit("demo.drill", seconds=0),
    }
    for name in ("note", "failed", "new"):
        made[name] = lister.finished(made[name]["id"])
    return made


@pytest.mark.parametrize(("query", "names"), [
    row("5.1 5.2", {}, "new failed note old"),
    row("5.2", {"status": "queued"}, "old"), row("5.2", {"status": "queued,failed"}, "failed old"),
    row("5.2", {"status": ["queued", "failed"]}, "failed old"), row("5.2", {"type": "demo.drill"}, "new failed"),
    row("5.2", {"type": "test.note,test.parked"}, "note old"), row("5.2", {"tag": "nightly"}, "note old"),
    row("5.2", {"tag": ["nightly", "eu"]}, "old"), row("5.2", {"tag": 'a"b'}, "failed"), row("5.2", {"tag": "night"}, ""),
    row("5.2", {"type": "demo.drill", "status": "succeeded"}, "new"), row("5.2", {"owner": "lister"}, "new failed note old"),
    row("5.2 5.7", {"owner": "somebody"}, ""), row("5.2", {"ids": ["old", "new"]}, "new old"),
    row("5.2", {"createdAfter": "old"}, "new failed note"), row("5.2", {"createdBefore": "new"}, "failed note old"),
    row("5.2", {"updatedAfter": "last.updatedAt"}, ""), row("5.2", {"updatedAfter": "old.updatedAt"}, "new failed note"),
    row("5.3", {"q": "quick"}, "note"), row("5.3", {"q": "文档"}, "note"), row("5.3", {"q": "quota exc"}, "failed"),
    row("5.3", {"q": "test.par"}, "old"), row("5.3", {"q": "nightl"}, "note old"), row("5.3", {"q": "100%"}, "note"),
    row("5.3", {"q": "b_x"}, "note"), row("5.3", {"q": "bx"}, "")])
def test_filters(lister, some, query, names):
    query = dict(query)
    for name, value in query.items():
        if name in ("createdAfter", "createdBefore"):
            query[name] = some[value]["createdAt"]
        elif name == "updatedAfter":
            query[name] = some["old"]["updatedAt"] if value.startswith("old") else max(job["updatedAt"] for job in some.values())
        elif name == "ids":
            query[name] = ",".join(some[each]["id"] for each in value)
    assert ids(lister.get("/v1/jobs", params=query)) == [some[name]["id"] for name in names.split()]


@rule("5.3")
def test_q_finds_an_id(lister, some):
    assert some["old"]["id"] in ids(lister.get("/v1/jobs", params={"q": some["old"]["id"]}))


@rule("5.2")
def test_a_time_may_have_any_offset(lister, some):
    moment = datetime.fromisoformat(some["new"]["createdAt"]).astimezone().replace(tzinfo=None) - timedelta(milliseconds=1)
    from datetime import timezone
    text = (moment + timedelta(hours=2)).replace(tzinfo=timezone(timedelta(hours=2))).isoformat()
    assert some["new"]["id"] in ids(lister.get(f"/v1/jobs?createdAfter={quote(text)}"))


@pytest.mark.parametrize(("query", "kind", "says"), [
    row("5.5", "stauts=queued", "bad-parameter", "stauts"), row("5.5", "status=queued,done", "bad-parameter", "'done'"),
    row("5.5", "status=", "bad-parameter", "status"), row("5.5", "status=queued,", "bad-parameter", "status"),
    row("5.5", "type=no.such", "bad-parameter", "no.such"), row("5.5", "tag=", "bad-parameter", "tag"),
    row("5.5", "q=", "bad-parameter", "q"), row("5.5", "q=a%00", "bad-parameter", "NUL"), row("5.5", "owner=", "bad-parameter", "owner"),
    row("5.5", "ids=1,x", "bad-parameter", "'x'"), row("5.5", "ids=", "bad-parameter", "ids"),
    row("5.5", "ids=" + ",".join(["1"] * 201), "bad-parameter", "200"), row("5.5", "limit=-1", "bad-parameter", "limit"),
    row("5.5", "limit=x", "bad-parameter", "limit"), row("5.5", "limit=1&limit=2", "bad-parameter", "more than once"),
    row("5.5", "createdAfter=yesterday", "bad-parameter", "%2B"), row("5.5", "createdAfter=2026-01-01T00:00:00", "bad-parameter", "offset"),
    row("5.5", "updatedAfter=2026-01-01T00:00:00+01:00", "bad-parameter", "%2B"), row("5.5", "cursor=abc", "bad-cursor", ""),
    row("5.5", "cursor=", "bad-cursor", ""), row("5.5", "wait=5", "bad-parameter", "wait")])
def test_what_is_unknown_or_unusable_is_400(lister, query, kind, says):
    answer = lister.get(f"/v1/jobs?{query}")
    assert (answer.status_code, slug(answer)) == (400, kind) and says in answer.json().get("detail", "")


@pytest.mark.parametrize("path", [row("5.5", path) for path in (
    "/v1/jobs/{}?x=1", "/v1/jobs/{}/result?x=1", "/v1/jobs/{}/events?x=1", "/v1/jobs/{}/logs?x=1", "/v1/jobs/{}/attempts?x=1",
    "/v1/jobs/{}/artifacts?x=1", "/v1/events?x=1", "/v1/jobs/changes?x=1", "/v1/job-types?x=1", "/v1/notes?x=1")])
def test_unknown_parameters_are_400_everywhere(lister, some, path):
    answer = lister.get(path.format(some["new"]["id"]))
    assert (answer.status_code, slug(answer)) == (400, "bad-parameter")


@rule("5.1", "5.4", "5.5")
def test_five_hundred_jobs_of_one_millisecond(house):
    api = house.session("pager")
    made = accept_many(house, "pager", 500)
    assert len({job["createdAt"] for job in api.get("/v1/jobs?limit=200").json()["jobs"]}) == 1
    found, url = [], "/v1/jobs?limit=70&status=queued"
    while url:
        answer = api.get(url)
        page = answer.json()
        found += ids(answer)
        assert answer.links.get("next", {}).get("url") == page["next"] and len(page["jobs"]) <= 70
        first, url = url, page["next"]
    assert [int(id) for id in found] == sorted(made, reverse=True)
    for limit, size in (("", 50), ("0", 50), ("1", 1), ("200", 200), ("201", 200), ("9" * 40, 200)):
        assert len(ids(api.get(f"/v1/jobs?limit={limit}" if limit else "/v1/jobs"))) == size
    following = api.get("/v1/jobs?limit=1").json()["next"]
    wrong = api.get(following.replace("limit=1", "status=queued"))
    assert slug(wrong) == "bad-cursor" and "filter" in wrong.json()["detail"]
    alone = house.admin.get(following.replace("limit=1", "limit=1&owner=pager"))     # the same filter, in effect
    assert ids(alone) == [str(made[-2])]


@pytest.mark.parametrize(("size", "cut"), [row("5.6", 3000, False), row("5.6", 5000, True)])
def test_big_payloads_and_results_are_left_out(house, size, cut):
    api = house.session(f"long{size}")
    job = api.finished(api.submit("test.big", size=size, filler="y" * size)["id"])
    assert "truncated" not in job and len(job["result"]["filler"]) == len(job["payload"]["filler"]) == size
    for shown in (api.get("/v1/jobs").json()["jobs"], api.get("/v1/jobs/changes?since=0").json()["changes"]):
        assert ("result" not in shown[0], "payload" not in shown[0], shown[0].get("truncated", False)) == (cut, cut, cut)


@rule("5.7")
def test_who_sees_which_jobs(house, lister, some, reader, bob):
    theirs = in_state(bob, "queued")
    mine = set(ids(lister.get("/v1/jobs?limit=200")))
    assert mine == {job["id"] for job in some.values()}
    assert mine < set(ids(reader.get("/v1/jobs?limit=200&owner=lister")) + [theirs["id"]])
    assert theirs["id"] in ids(reader.get("/v1/jobs")) and theirs["id"] in ids(house.admin.get("/v1/jobs?owner=bob"))
    assert ids(lister.get("/v1/jobs?owner=bob")) == ids(lister.get(f"/v1/jobs?ids={theirs['id']}")) == []
    changed = {change["id"] for change in lister.get("/v1/jobs/changes?since=0&limit=200").json()["changes"]}
    assert changed == mine
    end(bob, theirs)


# The feed


def feed(api, cursor, **query):
    answer = api.get("/v1/jobs/changes", params={"since": cursor} | query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@rule("5.8")
def test_the_feed_tells_each_job_once_as_it_is_now(house):
    api = house.session("feed")
    start = api.get("/v1/jobs/changes").json()
    assert start == {"changes": [], "nextCursor": start["nextCursor"], "hasMore": False}
    first, second, third = (in_state(api, "queued") for _ in range(3))
    api.delete(f"/v1/jobs/{first['id']}")
    api.delete(f"/v1/jobs/{second['id']}")
    api.post(f"/v1/jobs/{second['id']}:purge")
    page = feed(api, start["nextCursor"])
    assert [change["id"] for change in page["changes"]] == [third["id"], first["id"], second["id"]]
    assert page["changes"][1] == api.job(first["id"]) and page["changes"][2] == {"id": second["id"], "deleted": True}
    assert page["hasMore"] is False and feed(api, page["nextCursor"])["changes"] == []
    pages, cursor, more = [], start["nextCursor"], True
    while more:
        part = feed(api, cursor, limit=1)
        pages += part["changes"]
        cursor, more = part["nextCursor"], part["hasMore"]
    assert pages == page["changes"] and cursor == page["nextCursor"]
    assert slug(api.get("/v1/jobs/changes?since=x")) == "bad-cursor"


@rule("5.9")
def test_the_feed_holds_until_something_changes(house, bob):
    api = house.session("held")
    cursor = api.get("/v1/jobs/changes").json()["nextCursor"]
    started = time.monotonic()
    assert feed(api, cursor, wait="0.5") == {"changes": [], "nextCursor": cursor, "hasMore": False}
    assert time.monotonic() - started >= 0.5
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(feed, house.session("held"), cursor, wait=50)
        time.sleep(0.3)
        end(bob, in_state(bob, "queued"))       # not hers
        time.sleep(0.3)
        assert not held.done()
        job = in_state(api, "queued")
        page = held.result(60)
    assert [change["id"] for change in page["changes"]] == [job["id"]] and page["nextCursor"] == str(job["version"])
    preferred = api.get(f"/v1/jobs/changes?since={cursor}", headers={"Prefer": "wait=3"})
    assert preferred.headers["Preference-Applied"] == "wait=3" and preferred.headers["Cache-Control"] == "no-store"


@rule("5.10", "8.8")
def test_an_old_cursor_must_start_anew(strict):
    api, other = strict.session("tombs"), strict.session("others")
    api.headers["Idempotency-Key"] = "tombs"
    job = api.submit("test.parked")
    api.delete(f"/v1/jobs/{job['id']}")
    assert api.post(f"/v1/jobs/{job['id']}:purge").status_code == 204
    everyone = (api, strict.session("rita", "read"), strict.admin)
    assert [each.get(f"/v1/jobs/{job['id']}").status_code for each in everyone] == [410] * 3
    assert other.get(f"/v1/jobs/{job['id']}").status_code == 404
    strict.move(91)
    wait_for(lambda: api.get(f"/v1/jobs/{job['id']}").status_code == 404, 60, "the tombstone to be forgotten")
    answer = api.get("/v1/jobs/changes?since=1")
    assert (answer.status_code, slug(answer)) == (410, "resync-required")
    assert api.get(f"/v1/jobs/changes?since={api.get('/v1/jobs/changes').json()['nextCursor']}").status_code == 200
    assert [each.get(f"/v1/jobs/{job['id']}").status_code for each in everyone] == [404] * 3


@rule("5.11")
def test_two_readers_miss_nothing_under_concurrent_writers(house):
    """Writers change jobs while two clients follow, each over connections of its own to either web process."""
    api = house.session("crowd")
    cursor = api.get("/v1/jobs/changes").json()["nextCursor"]
    over, seen = threading.Event(), [{}, {}]

    def follow(number):
        at, order = cursor, []
        while True:
            ended = over.is_set()       # before the read: what it then leaves is nothing
            headers = {"Authorization": f"Bearer {api.key}"}       # a new connection each: any of the processes
            page = requests.get(f"{house.url}/v1/jobs/changes", params={"since": at, "limit": 7, "wait": "0.5"}, headers=headers,
                                timeout=20).json()
            for change in page["changes"]:
                seen[number][change["id"]] = change
                order.append(change["version"])
            at = page["nextCursor"]
            if ended and not page["changes"]:
                return order

    def write(_):
        own = house.session("crowd")
        for number in range(8):
            job = own.submit(*(("test.parked",) if number % 2 else ("demo.drill",)), **({} if number % 2 else {"seconds": 0, "steps": 3}))
            own.delete(f"/v1/jobs/{job['id']}")

    with ThreadPoolExecutor(6) as pool:
        readers = [pool.submit(follow, number) for number in range(2)]
        for writer in [pool.submit(write, number) for number in range(4)]:
            writer.result(60)
        wait_for(lambda: not ids(api.get("/v1/jobs?status=queued,running")))
        over.set()
        orders = [reader.result(30) for reader in readers]
    assert all(order == sorted(set(order)) for order in orders)
    final = {job["id"]: job for job in api.get("/v1/jobs?limit=200").json()["jobs"]}
    assert len(final) == 32 and seen[0] == seen[1] == final
    with database(house) as opened:
        assert opened.read().value("SELECT count(*) FROM jobs WHERE owner = 'crowd'") == 32
    assert json.dumps(final)
