"""One job on the real server, followed in every way that the contract offers: all of them see the same end."""

import json
import threading
import time

DRILL = {"seconds": 3, "steps": 12, "value": 42}


def frames(answer):
    """(event, id, data) of a stream, until it ends."""
    fields = {}
    for line in answer.iter_lines(decode_unicode=True):
        name, _, value = line.partition(": ")
        if not line and fields:
            yield fields["event"], fields.get("id"), json.loads(fields["data"])
            fields = {}
        elif line and name in ("event", "id", "data"):
            fields[name] = value


def by_stream_with_cuts(api, job):
    """Read three frames, hang up, resume; `done` must come once."""
    seen, percentages, last_id = [], [], None
    for _ in range(50):
        headers = {"Last-Event-ID": last_id} if last_id else {}
        with api.get(f"/v1/jobs/{job}/events", headers=headers, stream=True) as answer:
            if answer.status_code == 204:
                break
            for number, (event, id_, data) in enumerate(frames(answer)):
                seen.append(event)
                last_id = id_ or last_id
                percentages.append(data["progress"])
                if number == 2:
                    break
    assert seen.count("done") == 1 and seen[-1] == "done"
    assert percentages == sorted(percentages) and len(set(percentages)) >= 5
    return data["result"]


def by_long_poll(api, job):
    """Conditional long polls only: each comes back with something new."""
    tag, versions = None, []
    while True:
        answer = api.get(f"/v1/jobs/{job}", params={"wait": 20}, headers={"If-None-Match": tag} if tag else {})
        if answer.status_code == 200:
            tag = answer.headers["ETag"]
            versions.append(answer.json()["version"])
            if answer.json()["status"] == "succeeded":
                assert versions == sorted(set(versions))
                return answer.json()["result"]


def by_one_held_request(api, job):
    """A single request, held until the end."""
    return api.get(f"/v1/jobs/{job}", params={"wait": 50}).json()["result"]


def by_polling(api, job):
    """Plain polling with If-None-Match: unchanged states cost an empty 304."""
    tag, statuses = None, []
    while True:
        answer = api.get(f"/v1/jobs/{job}", headers={"If-None-Match": tag} if tag else {})
        statuses.append(answer.status_code)
        assert answer.status_code == 200 or not answer.content
        if answer.status_code == 200:
            tag = answer.headers["ETag"]
            if answer.json()["status"] == "succeeded":
                assert statuses.count(304) > statuses.count(200) and "Retry-After" not in answer.headers
                return answer.json()["result"]
        assert int(answer.headers["Retry-After"]) >= 1
        time.sleep(0.05)  # a client's own pace, quicker than it is told to; nothing waits for it


def by_feed(api, job):
    """The delta feed from a cursor taken before the job existed."""
    cursor = by_feed.cursor
    while True:
        page = api.get("/v1/jobs/changes", params={"since": cursor, "wait": 20}).json()
        cursor = page["nextCursor"]
        for change in page["changes"]:
            if change["id"] == job and change["status"] == "succeeded":
                return change["result"]


def by_the_stream_of_all(api, job):
    """The stream of all jobs, found by id."""
    with api.get("/v1/events", headers={"Last-Event-ID": by_feed.cursor}, stream=True) as answer:
        return next(data["result"] for event, _, data in frames(answer) if event == "done" and data["id"] == job)


def test_every_way_of_following_leads_to_the_same_end(server):
    alice = server.session("alice")
    by_feed.cursor = alice.get("/v1/jobs/changes").json()["nextCursor"]
    job = alice.submit("demo.drill", **DRILL)["id"]
    ways = (by_stream_with_cuts, by_long_poll, by_one_held_request, by_polling, by_feed, by_the_stream_of_all)
    ends = {}

    def follow(way):
        ends[way.__name__] = way(server.session("alice"), job)

    threads = [threading.Thread(target=follow, args=(way,)) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ends == {way.__name__: {"value": 42} for way in ways}
