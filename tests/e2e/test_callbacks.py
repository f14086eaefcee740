"""Signed callbacks out of the whole running server, checked by the unmodified public libraries."""

import json
import os
import signal
import time
from collections import Counter

import pytest
import standardwebhooks
import stripe

from tests.outbound import receiving, reply
from tests.stack import wait_for


@pytest.fixture
def receiver():
    with receiving() as one:
        yield one


def secrets_of(session, receiver):
    answer = session.get("/v1/callback-secrets", params={"origin": receiver.url})
    return [entry["secret"] for entry in answer.json()["secrets"]]


def python_accepts(got, secret, tolerance=300) -> tuple[bool, bool]:
    """Whether Stripe's and the Standard Webhooks library accept; the latter's tolerance is fixed."""
    try:
        stripe.WebhookSignature.verify_header(got.body, got.headers["x-webhook-signature"], secret, tolerance)
        by_stripe = True
    except stripe.SignatureVerificationError:
        by_stripe = False
    try:
        standardwebhooks.Webhook(secret).verify(got.body, got.headers)
        return by_stripe, True
    except standardwebhooks.WebhookVerificationError:
        return by_stripe, False


def javascript_accepts(node, got, secret, body=None, tolerance=300) -> tuple[bool, bool]:
    given = {"secret": secret, "headers": got.headers, "body": body or got.body.decode(), "tolerance": tolerance}
    said = node("verify.mjs", given)
    return said["stripe"], said["standardwebhooks"]


def test_a_callback_is_accepted_by_the_public_libraries_before_and_after_a_rotation(server, receiver, node):
    alice = server.session("alice")
    job = alice.submit("demo.drill", {"callbackUrl": f"{receiver.url}/hook"}, seconds=0)
    receiver.wait_for(1)
    [got], [secret] = receiver.got, secrets_of(alice, receiver)
    assert json.loads(got.body)["data"]["job"] == f"/v1/jobs/{job['id']}"
    assert json.loads(got.body)["data"]["version"] == alice.job(job["id"])["version"]
    assert python_accepts(got, secret) == javascript_accepts(node, got, secret) == (True, True)
    forged = got.body.decode().replace("succeeded", "failed")
    assert javascript_accepts(node, got, secret, forged) == (False, False)

    alice.post("/v1/callback-secrets:rotate", json={"origin": receiver.url})
    alice.submit("demo.drill", {"callbackUrl": f"{receiver.url}/hook"}, seconds=0)
    receiver.wait_for(2)
    new, old = secrets_of(alice, receiver)
    assert old == secret
    for active in (new, old):
        assert python_accepts(receiver.got[1], active) == (True, True)
        assert javascript_accepts(node, receiver.got[1], active) == (True, True)
    stranger = server.session("bob")
    [other] = secrets_of(stranger, receiver)
    assert python_accepts(receiver.got[1], other) == (False, False)
    assert javascript_accepts(node, receiver.got[1], other) == (False, False)


def test_what_was_signed_ten_minutes_ago_is_refused_for_its_age(stack, receiver, node, tmp_path):
    """The server's clock goes ten minutes late, so that all it signs is right but old."""
    (tmp_path / "clock").write_text("-600")
    stack.settings["test_clock"] = str(tmp_path / "clock")
    stack.start()
    alice = stack.session("alice")
    alice.submit("demo.drill", {"callbackUrl": receiver.url}, seconds=0)
    receiver.wait_for(1)
    [got], [secret] = receiver.got, secrets_of(alice, receiver)
    assert python_accepts(got, secret) == javascript_accepts(node, got, secret) == (False, False)
    assert python_accepts(got, secret, tolerance=3600) == (True, False)
    assert javascript_accepts(node, got, secret, tolerance=3600) == (True, False)


def test_an_endpoint_follows_a_job_to_its_end(server, receiver):
    carol = server.session("carol")
    wanted = {"url": receiver.url, "events": ["job.started", "job.failed"]}
    made = carol.post("/v1/webhook-endpoints", json=wanted).json()
    job = carol.submit("demo.drill", seconds=0, fail="as asked")
    receiver.wait_for(2)
    assert sorted(json.loads(got.body)["type"] for got in receiver.got) == ["job.failed", "job.started"]
    assert all(python_accepts(got, made["secrets"][0]["secret"]) == (True, True) for got in receiver.got)
    shown = lambda: carol.get(f"/v1/jobs/{job['id']}/deliveries").json()["deliveries"]  # noqa: E731
    wait_for(lambda: [row["state"] for row in shown()] == ["delivered"] * 2)
    assert carol.delete(made["links"]["self"]).status_code == 204


@pytest.mark.parametrize("target", ["http://169.254.169.254/x", "http://10.0.0.1/", "http://[::1]:1/", "http://2130706433/"])
def test_a_submission_with_a_callback_inside_leaves_nothing_behind(server, target):
    dave = server.session("dave-outside")      # whose jobs are none of another test's
    answer = dave.post("/v1/jobs", json={"type": "demo.drill", "payload": {}, "callbackUrl": target})
    assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (422, "target-forbidden")
    assert answer.json()["errors"][0]["pointer"] == "#/callbackUrl"
    assert dave.get("/v1/jobs").json()["jobs"] == []


def test_a_dispatcher_that_is_killed_in_mid_delivery_forgets_nothing(stack, receiver, tmp_path):
    stack.settings["test_clock"] = str(tmp_path / "clock")
    stack.start()
    alice = stack.session("alice")
    receiver.answer = lambda handler: (time.sleep(0.02), reply(handler))
    alice.post("/v1/webhook-endpoints", json={"url": receiver.url, "events": ["job.started", "job.succeeded"]})
    jobs = [alice.submit("demo.drill", seconds=0)["id"] for _ in range(100)]
    receiver.wait_for(20)
    [dispatcher] = stack.pids("dispatcher")
    os.kill(dispatcher, signal.SIGKILL)
    (tmp_path / "clock").write_text("60")  # the leases run out
    sent = lambda: {got.headers["webhook-id"] for got in list(receiver.got)}  # noqa: E731
    wait_for(lambda: len(sent()) == 200, 60)
    forms = {(got.headers["webhook-id"], got.body, got.headers["idempotency-key"]) for got in receiver.got}
    assert len(forms) == 200
    told = Counter(json.loads(body)["data"]["job"].rpartition("/")[2] for _, body, _ in forms)
    assert told == {id: 2 for id in jobs}
