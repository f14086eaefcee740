"""Signatures: the unmodified public verifiers decide, over what a real receiver got."""

import base64
import os
import subprocess
import sys

import pytest
import standardwebhooks
import stripe

from jobs.webhooks import receivers, signing
from tests.outbound import http_server, reply
from tests.stack import ROOT

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def verify(got, secret):
    """Raises unless both public libraries accept."""
    stripe.WebhookSignature.verify_header(got.body, got.headers["x-webhook-signature"], secret, tolerance=300)
    standardwebhooks.Webhook(secret).verify(got.body, got.headers)


def rejected(got, secret) -> int:
    """How many of the two libraries reject."""
    count = 0
    header = got.headers["x-webhook-signature"]
    for check in (lambda: stripe.WebhookSignature.verify_header(got.body, header, secret, 300),
                  lambda: standardwebhooks.Webhook(secret).verify(got.body, got.headers)):
        try:
            check()
        except (stripe.SignatureVerificationError, standardwebhooks.WebhookVerificationError):
            count += 1
    return count


def secret_of(world, receiver, owner="alice"):
    return [row.secret for row in receivers.secrets_of(world.db.read(), owner, receiver.url)]


def test_the_public_verifiers_accept_what_a_receiver_got(world, receiver):
    world.job(callback_url=receiver.url)
    world.run()
    [secret] = secret_of(world, receiver)
    verify(receiver.got[0], secret)
    assert " " not in receiver.got[0].headers["x-webhook-signature"]
    assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32


def test_the_public_verifiers_reject_what_was_changed(world, receiver):
    world.job(callback_url=receiver.url)
    world.run()
    [got], [secret] = receiver.got, secret_of(world, receiver)
    assert rejected(got, signing.new_secret()) == 2
    got.body = got.body.replace(b"succeeded", b"Succeeded")
    assert rejected(got, secret) == 2


def test_the_public_verifiers_reject_what_is_old(world, receiver):
    world.move(-301)
    world.job(callback_url=receiver.url)
    world.run()
    assert rejected(receiver.got[0], secret_of(world, receiver)[0]) == 2


def test_a_rotation_breaks_no_receiver(world, receiver):
    world.job(callback_url=receiver.url)
    world.run()
    [first] = secret_of(world, receiver)
    world.db.write(lambda tx: receivers.rotate(tx, "alice", receiver.url))
    second, still = secret_of(world, receiver)
    assert still == first
    world.job(callback_url=receiver.url)
    world.run()
    for secret in (first, second):
        verify(receiver.got[1], secret)
    assert receiver.got[1].headers["x-webhook-signature"].count("v1=") == 2
    world.db.write(lambda tx: receivers.rotate(tx, "alice", receiver.url))
    third, still = secret_of(world, receiver)
    assert still == second  # two at most
    world.job(callback_url=receiver.url)
    world.run()
    assert rejected(receiver.got[2], first) == 2
    verify(receiver.got[2], third)


def test_the_former_secret_ends_after_a_day(world, receiver):
    world.db.write(lambda tx: receivers.ensure_secret(tx, "alice", receiver.url))
    world.db.write(lambda tx: receivers.rotate(tx, "alice", receiver.url))
    assert len(secret_of(world, receiver)) == 2
    world.move(86401)
    assert len(secret_of(world, receiver)) == 1


def test_every_receiver_has_a_secret_of_its_own(world, receiver):
    with http_server(reply) as port:
        world.job(callback_url=receiver.url)
        world.job(callback_url=f"{receiver.url}/other?path")
        world.job(callback_url=f"http://127.0.0.1:{port}")
        world.job(callback_url=receiver.url, owner="bob")
        endpoint = world.db.write(lambda tx: receivers.register(tx, "alice", receiver.url, ["*"]))
        world.run()
    rows = world.db.read().all("SELECT owner, receiver, secret FROM callback_secrets")
    assert {(row.owner, row.receiver) for row in rows} == {
        ("alice", receiver.url), ("alice", f"http://127.0.0.1:{port}"), ("bob", receiver.url),
        ("alice", f"endpoint:{endpoint.id}")}
    assert len({row.secret for row in rows}) == len(rows) == 4


def test_all_secrets_can_be_rotated_at_once(world):
    for owner, origin in (("alice", "https://a.example"), ("alice", "https://b.example"), ("bob", "https://a.example")):
        world.db.write(lambda tx: receivers.ensure_secret(tx, owner, origin))
    assert world.db.write(lambda tx: receivers.rotate_all(tx, owner="alice")) == 2
    assert world.db.write(lambda tx: receivers.rotate_all(tx, overlap=0)) == 3
    assert len(receivers.secrets_of(world.db.read(), "bob", "https://a.example")) == 1
    assert world.db.write(lambda tx: receivers.rotate_all(tx, receiver="https://a.example")) == 2


def test_the_operator_rotates_from_the_command_line(world):
    world.db.write(lambda tx: receivers.ensure_secret(tx, "alice", "https://a.example"))

    def rotate(*options):
        return subprocess.run([sys.executable, "-m", "jobs.cli", "secrets", "rotate", *options], cwd=ROOT, text=True,
                              env=os.environ | world.settings.environment, capture_output=True)

    assert rotate("--origin", "https://A.example/hook").stdout == \
        "new secrets: 1; the former ones sign for another day\n"
    assert len(receivers.secrets_of(world.db.read(), "alice", "https://a.example")) == 2
    assert rotate("--owner", "alice", "--now").returncode == 0
    assert len(receivers.secrets_of(world.db.read(), "alice", "https://a.example")) == 1
    assert rotate("--endpoint", "7").returncode == 1
    assert rotate("--origin", "nonsense").returncode == 2


@pytest.mark.parametrize("body", [b"{}", "{\"ü\":\"☃\"}".encode(), b""])
def test_what_we_sign_is_what_the_libraries_sign(body):
    headers = signing.sign([SECRET], "evt_9", 1727251200, body)
    theirs = stripe.WebhookSignature.generate_signature_header(body.decode(), SECRET, 1727251200)
    assert headers["X-Webhook-Signature"] == theirs
