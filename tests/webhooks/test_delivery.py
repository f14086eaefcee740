"""The sender against real receivers: what arrives, what each answer means, what a killed sender leaves."""

import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jobs import clock
from jobs.core import lifecycle, tombstones
from jobs.core.outcome import Cancelled, Failed, Succeeded
from jobs.errors import Problem
from jobs.webhooks import log, outbox, receivers, schedule
from jobs.webhooks.delivery import Sender
from tests.outbound import DnsServer, receiving, reply

ROOT = Path(__file__).parent.parent.parent


def pause(delivery):
    """Seconds from the last change of a delivery to its next attempt."""
    return (clock.parse(delivery["nextAttemptAt"]) - clock.parse(delivery["updatedAt"])).total_seconds()


# What arrives


def test_a_callback_says_what_happened_and_where_to_read_it(world, receiver):
    job_id = world.job(callback_url=f"{receiver.url}/hook?x=1", traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    world.run()
    [got] = receiver.got
    body = json.loads(got.body)
    version = world.db.read().value("SELECT version FROM jobs WHERE id = :id", id=job_id)
    assert got.path == "/hook?x=1"
    assert body == {"id": got.headers["webhook-id"], "type": "job.succeeded", "createdAt": body["createdAt"],
                    "data": {"job": f"/v1/jobs/{job_id}", "version": version}}
    assert got.headers["content-type"] == "application/json"
    assert got.headers["idempotency-key"] == f"job-{job_id}.succeeded.1"
    assert got.headers["traceparent"].startswith("00-aaaa")
    assert got.headers["host"] == receiver.url.removeprefix("http://")
    shown = world.delivery(job_id)
    assert (shown["state"], shown["nextAttemptAt"], shown["attempts"][0]["status"]) == ("delivered", None, 200)


def test_a_job_that_is_purged_at_once_still_calls_back(world, receiver):
    job_id = world.job(callback_url=receiver.url)
    world.db.write(lambda tx: tombstones.purge(tx, job_id))
    world.run()
    assert [json.loads(got.body)["type"] for got in receiver.got] == ["job.succeeded"]


@pytest.mark.parametrize("outcome, event", [
    (Succeeded("1"), "job.succeeded"), (Failed(Problem("drill-failed", "secret reason")), "job.failed"),
    (Cancelled(), "job.cancelled"), (Succeeded("1", [{"part": "a", "detail": "b"}]), "job.partialSuccess")])
def test_a_callback_url_is_told_of_the_end_only(world, receiver, outcome, event):
    world.job(outcome, callback_url=receiver.url)
    world.run()
    assert [json.loads(got.body)["type"] for got in receiver.got] == [event]
    assert b"secret" not in receiver.got[0].body


def test_a_job_that_is_cancelled_before_its_start_is_told_of(world, receiver):
    job_id = world.submit(callback_url=receiver.url)
    world.db.write(lambda tx: lifecycle.request_cancel(tx, job_id))
    world.run()
    assert [got.headers["idempotency-key"] for got in receiver.got] == [f"job-{job_id}.cancelled.0"]


def test_an_endpoint_gets_the_events_of_its_owner_that_it_wants(world, receiver):
    for path, owner, events in (("/all", "alice", ["*"]), ("/ends", "alice", ["job.succeeded", "job.failed"]),
                                ("/films", "alice", ["film.ready"]), ("/bob", "bob", ["*"])):
        world.db.write(lambda tx: receivers.register(tx, owner, receiver.url + path, events))
    job_id = world.job(collection="films", resource_retention=86400)
    world.run()
    got = sorted((got.path, json.loads(got.body)["type"], got.headers["idempotency-key"]) for got in receiver.got)
    assert got == [("/all", "film.ready", f"film-1-job-{job_id}.ready.1"),
                   ("/all", "job.started", f"job-{job_id}.started.1"),
                   ("/all", "job.succeeded", f"job-{job_id}.succeeded.1"),
                   ("/ends", "job.succeeded", f"job-{job_id}.succeeded.1"),
                   ("/films", "film.ready", f"film-1-job-{job_id}.ready.1")]
    [ready] = [json.loads(got.body) for got in receiver.got if got.path == "/films"]
    assert ready["data"]["resource"] == "/v1/films/1"


def test_events_and_cursor_move_together(world, receiver):
    world.jobs(150, callback_url=receiver.url)  # 450 events: more than one page
    while outbox.follow(world.db):
        pass
    assert world.db.read().value("SELECT count(*) FROM deliveries") == 150
    assert outbox.follow(world.db) == 0
    assert world.db.read().value("SELECT value FROM meta WHERE name = 'callbacks'") == \
        world.db.read().value("SELECT max(id) FROM events")


def test_a_disabled_endpoint_gets_nothing(world, receiver):
    endpoint = world.db.write(lambda tx: receivers.register(tx, "alice", receiver.url, ["*"]))
    world.db.write(lambda tx: receivers.disable(tx, endpoint.id, "test"))
    world.job()
    world.run()
    assert receiver.got == []


# What each answer means


def hang(handler):
    handler.rfile.read(1)  # until the sender gives up


def reset(handler):
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def nonsense(handler):
    handler.wfile.write(b"What?\r\n\r\n")
    handler.close_connection = True


@pytest.mark.parametrize("answer, status, error", [
    (lambda handler: reply(handler, 500, b"broken"), 500, None),
    (lambda handler: reply(handler, 404), 404, None),
    (lambda handler: reply(handler, 401), 401, None),
    (lambda handler: reply(handler, 301, Location="http://127.0.0.1:1/"), 301, None),
    (lambda handler: reply(handler, 307, Location="/other"), 307, None),
    (hang, None, "timeout"),
    (reset, None, "connect"),
    (nonsense, None, "protocol"),
])
def test_a_failure_is_recorded_and_tried_again_by_the_schedule(make_world, receiver, answer, status, error):
    world = make_world(callback_timeout="500ms")
    receiver.answer = answer
    job_id = world.job(callback_url=receiver.url)
    world.run()
    shown = world.delivery(job_id)
    [attempt] = shown["attempts"]
    assert (shown["state"], attempt["status"], attempt["error"]) == ("pending", status, error)
    assert 5 <= pause(shown) <= 6
    assert len(receiver.got) == 1 and receiver.got[0].path == "/"
    receiver.answer = reply
    world.move(4)
    world.run()
    assert len(receiver.got) == 1
    world.move(3)
    world.run()
    first, second = receiver.got
    assert world.delivery(job_id)["state"] == "delivered"
    assert (first.body, first.headers["webhook-id"], first.headers["idempotency-key"]) == \
        (second.body, second.headers["webhook-id"], second.headers["idempotency-key"])
    assert int(second.headers["webhook-timestamp"]) >= int(first.headers["webhook-timestamp"]) + 7
    assert first.headers["x-webhook-signature"] != second.headers["x-webhook-signature"]


def test_a_receiver_may_take_its_time_within_the_limit(make_world, receiver):
    world = make_world(callback_timeout="15")
    receiver.answer = lambda handler: (time.sleep(1.5), reply(handler))
    job_id = world.job(callback_url=receiver.url)
    world.run()
    shown = world.delivery(job_id)
    assert shown["state"] == "delivered" and shown["attempts"][0]["durationMs"] >= 1500


def test_the_limit_is_fifteen_seconds(world):
    assert world.settings.callback_timeout == 15


@pytest.mark.parametrize("status, header, seconds", [
    (429, "600", (600, 601)), (503, "600", (600, 601)), (429, "1", (5, 6)), (429, "nonsense", (5, 6)),
    (503, "999999", (86400, 86401)), (500, "600", (5, 6))])
def test_a_busy_receiver_is_left_alone_as_long_as_it_asks(world, receiver, status, header, seconds):
    receiver.answer = lambda handler: reply(handler, status, Retry_After=header)
    job_id = world.job(callback_url=receiver.url)
    world.run()
    assert seconds[0] - 0.1 <= pause(world.delivery(job_id)) <= seconds[1]


def test_gone_ends_a_delivery_and_disables_an_endpoint(world, receiver):
    receiver.answer = lambda handler: reply(handler, 410)
    endpoint = world.db.write(lambda tx: receivers.register(tx, "alice", receiver.url + "/endpoint", ["job.succeeded"]))
    job_id = world.job(callback_url=receiver.url)
    world.run()
    assert [(shown["state"], shown["nextAttemptAt"]) for shown in world.deliveries(job_id)] == [("failed", None)] * 2
    row = receivers.get(world.db.read(), endpoint.id)
    assert row.disabled_at and "410" in row.disabled_reason
    world.move(10**6)
    world.run()
    assert len(receiver.got) == 2


def test_the_schedule_lasts_a_day_and_then_gives_up(world, receiver):
    receiver.answer = lambda handler: reply(handler, 500, b"x" * 3000 + b"\0\xff")
    job_id = world.job(callback_url=receiver.url)
    pauses = []
    world.run()
    while (shown := world.delivery(job_id))["state"] == "pending":
        pauses.append(pause(shown))
        world.move(pauses[-1])
        world.run()
    assert len(pauses) == len(schedule.DELAYS) == len(shown["attempts"]) - 1
    assert all(low <= taken <= 1.21 * low for low, taken in zip(schedule.DELAYS, pauses))
    assert sum(schedule.DELAYS) >= 24 * 3600
    assert (shown["state"], shown["note"]) == ("failed", "No attempts are left.")
    assert shown["attempts"][0]["excerpt"] == "x" * 1024
    assert len({got.body for got in receiver.got}) == len({got.headers["webhook-id"] for got in receiver.got}) == 1


def test_jitter_spreads_the_attempts():
    pauses = {schedule.judge(Problem("target-forbidden"), 4).delay for _ in range(50)}
    assert len(pauses) > 40 and all(1800 <= taken <= 2160 for taken in pauses)


def test_an_endpoint_that_fails_for_five_days_is_disabled_and_can_come_back(world, receiver):
    endpoint = world.db.write(lambda tx: receivers.register(tx, "alice", receiver.url, ["job.succeeded"]))
    receiver.answer = lambda handler: reply(handler, 500)
    world.job()
    world.run()
    assert receivers.get(world.db.read(), endpoint.id).failing_since
    world.move(4.9 * 86400)
    failed = world.job()
    outbox.follow(world.db)
    assert log.figures(world.db.read()) == {"new": 1, "retrying": 1, "failed": 0}
    world.run()
    assert receivers.get(world.db.read(), endpoint.id).disabled_at is None
    world.move(0.2 * 86400)
    world.run()
    row = receivers.get(world.db.read(), endpoint.id)
    assert row.disabled_at and row.failing_since in row.disabled_reason
    assert receivers.failing(world.db.read(), "alice") == 1 and receivers.failing(world.db.read(), "bob") == 0
    assert log.figures(world.db.read()) == {"new": 0, "retrying": 0, "failed": 2}
    assert world.delivery(failed)["state"] == "failed" and "disabled" in world.delivery(failed)["note"]
    receiver.answer = reply
    world.db.write(lambda tx: receivers.enable(tx, endpoint.id))
    assert world.db.write(lambda tx: log.redeliver_failed(tx, "2000-01-01T00:00:00.000Z", "bob")) == 0
    assert world.db.write(lambda tx: log.redeliver_failed(tx, "2000-01-01T00:00:00.000Z", "alice", endpoint.id)) == 2
    world.run()
    assert world.delivery(failed)["state"] == "delivered"
    assert receivers.get(world.db.read(), endpoint.id).failing_since is None
    assert receivers.failing(world.db.read(), "alice") == 0


def test_one_success_forgives_the_failures_before(world, receiver):
    endpoint = world.db.write(lambda tx: receivers.register(tx, "alice", receiver.url, ["job.succeeded"]))
    receiver.answer = lambda handler: reply(handler, 500)
    world.job()
    world.run()
    world.move(3 * 86400)
    receiver.answer = reply
    world.run()
    assert receivers.get(world.db.read(), endpoint.id).failing_since is None


def test_a_redelivery_repeats_the_bytes_under_a_new_signature(world, receiver):
    job_id = world.job(callback_url=receiver.url)
    world.run()
    world.move(3600)
    delivery_id = int(world.delivery(job_id)["id"])
    world.db.write(lambda tx: log.redeliver(tx, delivery_id))
    world.run()
    first, second = receiver.got
    assert first.body == second.body and first.headers["webhook-id"] == second.headers["webhook-id"]
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) >= 3600
    assert [attempt["attempt"] for attempt in world.delivery(job_id)["attempts"]] == [1, 2]


def test_a_ping_is_one_attempt_and_reaches_a_disabled_endpoint_too(world, receiver):
    endpoint = world.db.write(lambda tx: receivers.register(tx, "alice", receiver.url, ["job.failed"]))
    world.db.write(lambda tx: receivers.disable(tx, endpoint.id, "test"))
    receiver.answer = lambda handler: reply(handler, 500)
    world.db.write(lambda tx: outbox.ping(tx, endpoint))
    world.run()
    [row] = log.of_endpoint(world.db.read(), endpoint.id)
    assert row.state == "failed" and json.loads(receiver.got[0].body)["type"] == "ping"


def test_an_endpoint_that_moves_takes_its_deliveries_along(world, receiver):
    endpoint = world.db.write(lambda tx: receivers.register(tx, "alice", f"{receiver.url}/old", ["job.succeeded"]))
    receiver.answer = lambda handler: reply(handler, 500)
    world.job()
    world.run()
    new = {"url": f"{receiver.url}/new", "events": ["*"], "description": ""}
    world.db.write(lambda tx: receivers.change(tx, endpoint.id, **new))
    receiver.answer = reply
    world.move(60)
    world.run()
    assert [got.path for got in receiver.got] == ["/old", "/new"]


# Where it may go


def test_every_attempt_asks_the_resolver_and_checks_again(make_world, receiver):
    """The name is public when the job is accepted, leads inside later, and nothing is sent there."""
    dns = DnsServer(lambda name, asked: ["127.0.0.1"] if asked == 0 else ["10.1.2.3"])
    world = make_world(resolver=dns.resolve)
    receiver.answer = lambda handler: reply(handler, 500)
    port = receiver.url.rpartition(":")[2]
    job_id = world.job(callback_url=f"http://hooks.example:{port}/")
    world.run()
    world.move(60)
    world.run()
    dns.close()
    first, second = world.delivery(job_id)["attempts"]
    assert first["status"] == 500
    assert second["error"] == "forbidden"
    assert second["detail"] == "hooks.example leads to a private address that ACCEPTED_ALLOWED_TARGETS does not list."
    assert len(receiver.got) == 1 and dns.asked["hooks.example"] == 2


def test_a_name_that_does_not_resolve_is_tried_again(make_world):
    dns = DnsServer(lambda name, asked: [])
    world = make_world(resolver=dns.resolve)
    job_id = world.job(callback_url="http://nowhere.example/")
    world.run()
    dns.close()
    assert world.delivery(job_id)["attempts"][0]["error"] == "dns"
    assert world.delivery(job_id)["state"] == "pending"


def test_a_certificate_that_nobody_trusts_is_a_failure(world, receiver):
    job_id = world.job(callback_url=receiver.url.replace("http:", "https:"))
    world.run()
    assert world.delivery(job_id)["attempts"][0]["error"] == "tls"


# Many at once


def test_receivers_that_hang_hold_up_no_other(make_world, receiver):
    world = make_world(callback_timeout="120")
    release = threading.Event()
    with receiving() as deaf:
        deaf.answer = lambda handler: (release.wait(120), reply(handler))
        for number in range(20):  # more registrations than there are places
            world.db.write(lambda tx: receivers.register(tx, "alice", f"{deaf.url}/{number}", ["job.succeeded"]))
        world.db.write(lambda tx: receivers.register(tx, "alice", receiver.url, ["job.succeeded"]))
        world.jobs(10)
        began = time.monotonic()
        while len(receiver.got) < 10:
            world.sender.tick()
            with receiver.came:
                receiver.came.wait(0.05)
            assert time.monotonic() - began < 60, f"{len(receiver.got)} of 10 came"
        release.set()
        world.sender.close(60)


def test_the_events_of_a_job_come_in_order_while_all_goes_well(world, receiver):
    world.db.write(lambda tx: receivers.register(tx, "alice", receiver.url, ["*"]))
    world.jobs(25)
    receiver.answer = lambda handler: (time.sleep(random.uniform(0, 0.03)), reply(handler))
    world.run()
    told = {}
    for got in receiver.got:
        body = json.loads(got.body)
        told.setdefault(body["data"]["job"], []).append(body["type"])
    assert list(told.values()) == [["job.started", "job.succeeded"]] * 25


def test_nothing_is_started_after_closing(world, receiver):
    world.job(callback_url=receiver.url)
    assert world.sender.close()
    world.sender.tick()
    assert world.sender.settled(1) and receiver.got == []


# A sender that is killed

SENDER = """
import sys, time
import jobs.webhooks.models
from jobs import settings
from jobs.db import Database
from jobs.targets import Guard
from jobs.webhooks.delivery import Sender
loaded = settings.load()
sender = Sender(Database(loaded), loaded, Guard(loaded.allowed_targets))
print("up", flush=True)
while True:
    sender.tick()
    time.sleep(0.02)
"""


def test_a_killed_sender_forgets_nothing(world, receiver):
    world.jobs(200, callback_url=receiver.url)
    receiver.answer = lambda handler: (time.sleep(0.02), reply(handler))
    environ = os.environ | world.settings.environment
    for kills in range(1, 4):
        process = subprocess.Popen([sys.executable, "-c", SENDER], cwd=ROOT, env=environ)
        try:
            receiver.wait_for(40 * kills)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        world.move(60)  # the leases run out
    world.run()
    sent: dict[str, set] = {}
    for got in receiver.got:
        sent.setdefault(got.headers["webhook-id"], set()).add((got.body, got.headers["idempotency-key"]))
    assert len(sent) == 200 and all(len(forms) == 1 for forms in sent.values())
    assert world.db.read().value("SELECT count(*) FROM deliveries WHERE state = 'delivered'") == 200


def test_a_sender_whose_lease_ran_out_writes_nothing(world, receiver):
    release = threading.Event()
    receiver.answer = lambda handler: (release.wait(60), reply(handler, 500))
    job_id = world.job(callback_url=receiver.url)
    world.sender.tick()
    receiver.wait_for(1)
    world.move(60)
    receiver.answer = reply
    world.run(Sender(world.db, world.settings, world.guard))
    release.set()
    assert world.sender.settled(60)
    shown = world.delivery(job_id)
    assert shown["state"] == "delivered" and [attempt["status"] for attempt in shown["attempts"]] == [200]


def test_old_records_are_forgotten(world, receiver):
    job_id = world.job(callback_url=receiver.url)
    world.run()
    world.db.write(lambda tx: log.prune(tx, clock.after(-3600)))
    assert world.deliveries(job_id)
    world.db.write(lambda tx: log.prune(tx, clock.after(3600)))
    assert world.deliveries(job_id) == []
    assert world.db.read().value("SELECT count(*) FROM delivery_attempts") == 0


# The other database


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_both_databases_say_the_same(make_world, receiver, request, database):
    """Every statement of this room once, on each database."""
    world = make_world(**({"database_url": request.getfixturevalue("postgres_url")} if database == "postgresql" else {}))
    receiver.answer = lambda handler: reply(handler, 500, b"\0")
    endpoint = world.db.write(lambda tx: receivers.register(tx, "alice", receiver.url + "/endpoint", ["job.succeeded"]))
    job_id = world.job(callback_url=receiver.url)
    world.run()
    assert [row["state"] for row in world.deliveries(job_id)] == ["pending"] * 2
    world.move(6 * 86400)
    world.run()
    row = receivers.get(world.db.read(), endpoint.id)
    assert row.disabled_at and [row["state"] for row in world.deliveries(job_id)] == ["pending", "failed"]
    assert world.db.write(lambda tx: receivers.enable(tx, endpoint.id))
    assert world.db.write(lambda tx: log.redeliver_failed(tx, "2000-01-01T00:00:00.000Z", None)) == 1
    assert world.db.write(lambda tx: log.redeliver_failed(tx, "2000-01-01T00:00:00.000Z", "alice", endpoint.id)) == 0
    receiver.answer = reply
    world.move(86400)
    world.db.write(lambda tx: [outbox.ping(tx, endpoint), receivers.rotate(tx, "alice", receiver.url),
                               receivers.rotate_all(tx), receivers.rotate_all(tx, "alice")])
    world.run()
    assert {row["state"] for row in world.deliveries(job_id)} == {"delivered"}
    assert len(log.of_endpoint(world.db.read(), endpoint.id)) == 2 and len(receivers.listed(world.db.read(), "alice")) == 1
    world.db.write(lambda tx: receivers.remove(tx, endpoint.id))
    world.db.write(lambda tx: log.prune(tx, clock.after(60)))
    assert receivers.listed(world.db.read(), None) == world.deliveries(job_id) == []
