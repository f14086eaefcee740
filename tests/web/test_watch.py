"""Watching through the live tier: nothing is missed, nothing comes twice, nobody else is held up."""

import json
import threading
import time

import pytest

from jobs import clock
from jobs.core import access, submission, tombstones
from tests.stack import wait_for
from tests.web.conftest import Events


def test_a_stream_tells_state_changes_and_end(live):
    job = live.running()
    stream = live.events(f"/jobs/{job.id}/events")
    headers = stream.response.headers
    assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert headers["Cache-Control"] == "no-store" and headers["X-Accel-Buffering"] == "no"
    event, id, data, block = stream.next()
    assert (event, id, block.splitlines()[0]) == ("progress", job.version, "retry: 3000")
    assert data == {"status": "running", "progress": 0, "stage": None, "eta": None, "attempt": 1, "version": job.version,
                    "updatedAt": job.updated_at}
    version = live.report(job, 5)
    assert stream.next()[1] == version
    row = live.finish(job, '{"n":1}')
    (event, id, data, block), = stream.rest()
    assert (event, id, data["status"], data["result"]) == ("done", row.version, "succeeded", {"n": 1})
    assert "retry" not in block


def test_a_terminal_job_is_done_alone_and_once(live):
    job = live.running()
    row = live.finish(job)
    (event, id, data, block), = live.events(f"/jobs/{job.id}/events").rest()
    assert (event, id, data["result"], block[:5]) == ("done", row.version, None, "retry")
    assert live.events(f"/jobs/{job.id}/events", Last_Event_ID=job.version).next()[0] == "done"
    assert live.get(f"/jobs/{job.id}/events", headers={"Last-Event-ID": str(row.version)}).status_code == 204


@pytest.mark.parametrize("unknown", ["", "abc", "-1", "99999999999999999", "1" * 40, "٣"])
def test_an_unknown_id_counts_as_none(live, unknown):
    job = live.running()
    assert live.events(f"/jobs/{job.id}/events", Last_Event_ID=unknown.encode()).next()[1] == job.version


def test_resuming_repeats_nothing_and_misses_nothing(live):
    job = live.running()
    stream = live.events(f"/jobs/{job.id}/events", Last_Event_ID=job.version)
    wait_for(lambda: live.facts()["seats"] == 1)
    version = live.report(job, 3)
    event, id, _, block = stream.next()
    assert (id, block.splitlines()[0]) == (version, "retry: 3000")
    stream.close()
    live.report(job, 4)
    version = live.report(job, 5)
    stream = live.events(f"/jobs/{job.id}/events", Last_Event_ID=id)
    assert stream.next()[1:3][0] == version
    live.finish(job)
    assert [event[0] for event in stream.rest()] == ["done"]


def test_done_comes_exactly_once_to_a_client_that_is_cut_again_and_again(live):
    job = live.running()
    done, versions, last = 0, [], None

    def work():
        for progress in range(1, 60):
            live.report(job, progress)
        live.finish(job)

    worker = threading.Thread(target=work)
    worker.start()
    while True:
        headers = {"Last-Event-ID": str(last)} if last else {}
        response = live.get(f"/jobs/{job.id}/events", stream=True, headers=headers)
        if response.status_code == 204:
            break
        for event, id, _, _ in Events(response):
            if event == "comment":
                continue
            done += event == "done"
            versions.append(id)
            last = id
            break  # cut after each event
        response.close()
    worker.join()
    assert done == 1
    assert versions == sorted(set(versions))


def test_fast_progress_comes_by_the_doorbell_alone(live):
    job = live.running()
    stream = live.events(f"/jobs/{job.id}/events")
    everything = live.events("/events", role="read")
    assert stream.next()
    wait_for(lambda: live.facts()["seats"] == 2)
    poll_answers = []
    poll = threading.Thread(target=lambda: poll_answers.append(
        live.get(f"/jobs/{job.id}?wait=20", headers={"If-None-Match": f'"{job.version}"'})))
    poll.start()
    wait_for(lambda: live.facts()["seats"] == 3)

    def hint(progress, attempt=1, stage="fast", **more):
        live.doorbell.publish({"id": job.id, "version": None, "status": "running", "progress": progress, "stage": stage,
                               "attempt": attempt, "owner": "submit"} | more)

    hint(7)
    event, id, data, block = stream.next()
    assert (event, id, data["progress"], data["stage"], "id: " in block) == ("progress", None, 7, "fast", False)
    assert everything.next()[2]["id"] == str(job.id)
    hint(6)               # older than what is known
    hint(50, attempt=9)   # not this attempt
    hint(8)
    assert stream.next()[2]["progress"] == 8
    hint(8, stage="older than the row", at="2020-01-01T00:00:00.000Z")
    hint(8, stage="fresh", at=clock.wire(clock.now()))
    assert stream.next()[2]["stage"] == "fresh"
    assert not poll_answers
    live.finish(job)
    poll.join()
    assert poll_answers[0].json()["status"] == "succeeded"
    hint(99)              # after the end
    assert [event[0] for event in stream.rest()] == ["done"]


def test_at_most_ten_frames_a_second_and_the_latest_always(live):
    job = live.running()
    stream = live.events(f"/jobs/{job.id}/events")
    stream.next()
    began = time.monotonic()
    for progress in range(1, 100):
        last = live.report(job, progress)
    seen = []
    while not seen or seen[-1] != last:
        seen.append(stream.next()[1])
    assert len(seen) <= (time.monotonic() - began) / 0.1 + 1
    assert seen == sorted(set(seen))


def test_silence_is_filled_with_single_comment_lines(live):
    job = live.running()
    stream = iter(live.events(f"/jobs/{job.id}/events"))
    assert next(stream)[0] == "progress"
    began = time.monotonic()
    assert next(stream) == ("comment", None, None, ":")
    assert time.monotonic() - began > 0.8  # keepalive is 1 s here


def test_head_answers_at_once(live):
    job = live.running()
    for path in (f"/jobs/{job.id}/events", "/events", f"/jobs/{job.id}?wait=50", "/changes?wait=50"):
        began = time.monotonic()
        answer = live.get(path, method="HEAD")
        assert answer.status_code == 200 and time.monotonic() - began < 25
        is_stream = path.endswith("events")
        assert ("text/event-stream" in answer.headers["Content-Type"]) == is_stream != ("Content-Length" in answer.headers)


def test_results_travel_up_to_64_kib(live):
    small, large = live.running(payload='"' + "p" * 9_000 + '"'), live.running()
    streams = [live.events(f"/jobs/{job.id}/events") for job in (small, large)]
    for stream in streams:
        stream.next()
    text = '"' + "x" * (64 * 1024 - 2) + '"'
    live.finish(small, text)
    live.finish(large, text[:-1] + 'x"')
    assert streams[0].rest()[-1][2]["result"] == json.loads(text)
    done = streams[1].rest()[-1][2]
    assert "result" not in done and done["resultUrl"] == f"/v1/jobs/{large.id}/result"


def test_all_jobs_that_the_caller_may_see(live):
    position = live.get("/changes").json()["next"]
    mine, other = live.events("/events"), live.events("/events", role="read")
    wait_for(lambda: live.facts()["seats"] == 2)
    foreign = live.running(owner="somebody")
    own = live.running()
    first = [other.next() for _ in range(2)]
    assert {event[2]["id"] for event in first} <= {str(foreign.id), str(own.id)}
    live.finish(foreign, '"secret"')
    live.finish(own)

    def done_of(stream):
        seen = []
        while not seen or seen[-1][:1] != ("done",):
            seen.append(stream.next())
        return {event[2]["id"] for event in seen}

    assert done_of(mine) == {str(own.id)}
    mine.close()
    other.close()
    resumed = live.events("/events", Last_Event_ID=position)
    event, id, data, block = resumed.next()
    assert (event, data["id"], block[:5]) == ("done", str(own.id), "retry")
    wait_for(lambda: live.facts()["seats"] == 1)
    again = live.events("/events", Last_Event_ID=id)
    next_job = live.job()
    assert again.next()[2]["id"] == resumed.next()[2]["id"] == str(next_job.id)


def test_a_long_absence_is_made_up_for_in_pages(live):
    position = live.get("/changes").json()["next"]

    def many(tx):
        for _ in range(1300):
            submission.accept(tx, submission.Submission(
                type="demo", owner="many", queue="default", payload="{}", timeout=60, retention=600, max_attempts=3,
                start_within=600))

    live.db.write(many, durable=False)
    first = live.events("/events", role="read", Last_Event_ID=position).rest()
    assert len(first) == 1000
    second = live.events("/events", role="read", Last_Event_ID=first[-1][1])
    rest = [second.next() for _ in range(300)]
    assert len({event[2]["id"] for event in first + rest}) == 1300


@pytest.mark.parametrize("condition", [True, False])
def test_a_long_poll_ends_when_it_should(live, condition):
    job = live.running()
    headers = {"If-None-Match": f'"{job.version}"'} if condition else {}
    answers = []
    poll = threading.Thread(target=lambda: answers.append(live.get(f"/jobs/{job.id}?wait=50", headers=headers)))
    poll.start()
    wait_for(lambda: live.facts()["seats"] == 1)
    began = time.monotonic()
    version = live.report(job, 1)
    if not condition:
        assert not answers
        version = live.finish(job, json.dumps("x" * 10_000)).version
    poll.join()
    assert time.monotonic() - began < 25
    assert answers[0].status_code == 200 and answers[0].headers["ETag"] == f'"{version}"'
    assert answers[0].json()["version"] == version
    assert condition or len(answers[0].json()["result"]) == 10_000  # whole, though the feed leaves big ones out


def test_a_long_poll_in_vain(live):
    job = live.running()
    began = time.monotonic()
    answer = live.get(f"/jobs/{job.id}?wait=0.3", headers={"If-None-Match": f'"{job.version}"'})
    assert answer.status_code == 304 and not answer.content and answer.headers["ETag"] == f'"{job.version}"'
    assert live.get(f"/jobs/{job.id}?wait=0.3").json()["status"] == "running"
    assert 0.6 < time.monotonic() - began < 25


def test_waiting_for_changes(live):
    cursor = live.get("/changes").json()["next"]
    answers = []
    polls = [threading.Thread(target=lambda role=role: answers.append((role, live.get(f"/changes?wait=20&since={cursor}", role))))
             for role in ("submit", "read")]
    for poll in polls:
        poll.start()
    wait_for(lambda: live.facts()["seats"] == 2)
    foreign = live.job(owner="somebody")
    polls[1].join()
    own = live.job()
    polls[0].join()
    assert [(role, answer.json()["ids"]) for role, answer in answers] == [("read", [foreign.id]), ("submit", [own.id])]
    cursor = live.get(f"/changes?since={cursor}").json()["next"]
    assert live.get(f"/changes?wait=0.2&since={cursor}").json() == {"ids": [], "next": cursor}


def test_no_update_is_missed_between_reading_and_parking(live):
    """Each poll is opened at the moment of a change; if one slipped through, the poll would last its whole 50 s."""
    for _ in range(30):
        job = live.running()
        answers = []
        poll = threading.Thread(target=lambda: answers.append(
            live.get(f"/jobs/{job.id}?wait=50", headers={"If-None-Match": f'"{job.version}"'})))
        began = time.monotonic()
        poll.start()
        live.finish(job)
        poll.join()
        assert answers[0].json()["status"] == "succeeded"
        assert time.monotonic() - began < 25


def test_purging_ends_the_wait(live):
    job = live.running()
    row = live.finish(job)
    everything = live.events("/events", role="read")
    answers = []
    poll = threading.Thread(target=lambda: answers.append(
        live.get(f"/jobs/{job.id}?wait=20", headers={"If-None-Match": f'"{row.version}"'})))
    poll.start()
    wait_for(lambda: live.facts()["seats"] == 2)
    live.db.write(lambda tx: tombstones.purge(tx, job.id))
    poll.join()
    assert answers[0].status_code == 410 and answers[0].json()["type"].endswith("/problems/gone")
    following = live.job()
    assert everything.next()[2]["id"] == str(following.id)  # a tombstone is no event


def test_a_revoked_key_closes_its_streams(live):
    live.keys["leaver"] = live.db.write(lambda tx: access.make_key(tx, "submit", "submit"))
    key_id = live.db.read().value("SELECT max(id) FROM keys")
    job = live.running()
    leaving, staying = live.events(f"/jobs/{job.id}/events", role="leaver"), live.events(f"/jobs/{job.id}/events")
    assert leaving.next() and staying.next()
    live.db.write(lambda tx: access.revoke(tx, key_id))
    with pytest.raises(Exception):  # cut, not ended: the last chunk never comes
        leaving.rest()
    live.finish(job)
    assert staying.rest()[-1][0] == "done"


def test_a_slow_reader_is_dropped_and_the_others_are_not(live):
    slow, quick = live.open("/events", receive_buffer=4096), live.events("/events")
    wait_for(lambda: live.facts()["seats"] == 2)
    for _ in range(15):
        jobs = {str(live.finish(live.running(), json.dumps("x" * 60_000)).id) for _ in range(10)}
        while jobs:
            event, _, data, _ = quick.next()
            if event == "done":
                jobs.discard(data["id"])
    wait_for(lambda: live.facts()["seats"] == 1)
    slow.close()


def test_following_a_log(live):
    job, other = live.running(), live.running()
    live.write_lines(job, "one", "two\nthree\r\nfour")
    stream = live.events(f"/jobs/{job.id}/logs")
    event, first, data, block = stream.next()
    assert (event, data["line"], data["id"], block[:5]) == ("line", "one", first, "retry")
    assert stream.next()[2]["line"] == "two\nthree\r\nfour"
    wait_for(lambda: live.facts()["seats"] == 1)
    live.write_lines(other, "not mine")
    live.write_lines(job, "five")
    live.report(job, 1)
    event, last, data, _ = stream.next()
    assert data["line"] == "five"
    live.write_lines(job, "six")
    live.finish(job)
    assert [(event[0], event[2].get("line")) for event in stream.rest()] == [("line", "six"), ("done", None)]
    resumed = live.events(f"/jobs/{job.id}/logs", Last_Event_ID=last).rest()
    assert [(event[0], event[2].get("line")) for event in resumed] == [("line", "six"), ("done", None)]
    assert resumed[1][1] == resumed[0][1]
    assert live.get(f"/jobs/{job.id}/logs", headers={"Last-Event-ID": str(resumed[0][1])}).status_code == 204
    live.finish(other := live.running())
    [(event, id, _, _)] = live.events(f"/jobs/{other.id}/logs").rest()
    assert (event, live.get(f"/jobs/{other.id}/logs", headers={"Last-Event-ID": str(id)}).status_code) == ("done", 204)


def test_the_cap(own_live):
    live = own_live(max_watchers="2")
    job = live.running()
    streams = [live.events(f"/jobs/{job.id}/events") for _ in range(2)]
    for stream in streams:
        stream.next()
    refused = live.get(f"/jobs/{job.id}?wait=5")
    assert refused.status_code == 503 and refused.headers["Retry-After"].isdigit()
    assert live.get(f"/jobs/{job.id}").status_code == 200
    (event, _, data, block), = live.events(f"/jobs/{job.id}/events").rest()
    assert (event, data["status"], block.splitlines()[0]) == ("progress", "running", "retry: 30000")
    (event, id, data, block), = live.events("/events").rest()
    assert (event, id, data, block.splitlines()[0]) == ("busy", None, {}, "retry: 30000")
    live.finish(job)
    assert live.events(f"/jobs/{job.id}/events").next()[0] == "done"  # this one never has to wait


def test_redis_restarts_mid_stream(own_live):
    live = own_live()
    job = live.running()
    stream = live.events(f"/jobs/{job.id}/events")
    stream.next()
    live.stop_redis()
    version = live.report(job, 1)
    assert stream.next()[1] == version  # by the tick alone
    live.start_redis()
    wait_for(lambda: live.report(job, 2) and live.doorbell.publish({"id": 0, "version": 0}))
    assert stream.next()
    live.finish(job)
    assert stream.rest()[-1][0] == "done"


def test_under_another_server_watchers_wait_on_threads(own_live):
    live = own_live(worker_class="gthread", web_threads="4")
    job = live.running()
    stream = live.events(f"/jobs/{job.id}/events")
    assert stream.next()[0] == "progress"
    assert live.get(f"/jobs/{job.id}?wait=0.2").json()["status"] == "running"
    second = live.events(f"/jobs/{job.id}/events")
    assert second.next()[0] == "progress"
    assert live.get(f"/jobs/{job.id}?wait=5").status_code == 503       # half of the threads wait already
    (_, _, _, block), = live.events(f"/jobs/{job.id}/events").rest()
    assert block.startswith("retry: 30000")
    second.close()
    wait_for(lambda: live.facts()["seats"] == 1)                     # noticed by the next keep-alive
    live.finish(job, "1")
    assert stream.rest()[-1][2]["result"] == 1
    wait_for(lambda: live.facts()["seats"] == 0)
