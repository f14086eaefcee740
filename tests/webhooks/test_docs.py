"""docs/callbacks.md: its vectors are true, its schedule is ours, and its receivers work as they stand there."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import requests
import standardwebhooks
import stripe

from jobs import clock
from jobs.webhooks import schedule, signing
from tests.stack import wait_for

DOCS = (Path(__file__).parents[2] / "docs" / "callbacks.md").read_text()
BODY = re.search(r'^\{"id":"evt_9".*$', DOCS, re.M)[0].encode()
VECTORS = json.loads(re.search(r"```json\n(.*?)```", DOCS, re.S)[1])
SECRET = VECTORS[0]["secret"]


def example(name: str) -> str:
    """The block of code whose first line names the file."""
    return re.search(rf"```\w+\n((?:#|//) {re.escape(name)}:.*?)```", DOCS, re.S)[1]


def test_the_vectors_are_what_we_and_the_public_libraries_compute():
    headers = signing.sign([vector["secret"] for vector in VECTORS], "evt_9", 1727251200, BODY)
    assert headers["X-Webhook-Signature"] == "t=1727251200," + ",".join(f"v1={vector['hex']}" for vector in VECTORS)
    assert headers["webhook-signature"] == " ".join(f"v1,{vector['base64']}" for vector in VECTORS)
    for vector in VECTORS:
        stripes = stripe.WebhookSignature.generate_signature_header(BODY.decode(), vector["secret"], 1727251200)
        assert stripes == f"t=1727251200,v1={vector['hex']}"
        at = clock.parse("2024-09-25T08:00:00Z")
        standard = standardwebhooks.Webhook(vector["secret"]).sign("evt_9", at, BODY.decode())
        assert standard == f"v1,{vector['base64']}"
    shown = dict(re.findall(r"^(X-Webhook-Signature|webhook-signature): (.*)$", DOCS, re.M))
    assert shown == {"X-Webhook-Signature": f"t=1727251200,v1={VECTORS[0]['hex']}",
                     "webhook-signature": f"v1,{VECTORS[0]['base64']}"}


def test_the_schedule_in_the_docs_is_the_one_in_force():
    row = re.search(r"^\| after the one before \| at once \| (.*) \|$", DOCS, re.M)[1]
    units = {"s": 1, "min": 60, "h": 3600}
    assert tuple(int(number) * units[unit] for number, unit in map(str.split, row.split(" | "))) == schedule.DELAYS
    total = sum(schedule.DELAYS)
    for seconds, text in ((total, "27 h 42 min"), (total * (1 + schedule.JITTER), "33 h 15 min")):
        assert f"{int(seconds) // 3600} h {int(seconds) % 3600 // 60} min" == text and text in DOCS


def signed(secret=SECRET, body=BODY, age=0):
    return signing.sign([signing.new_secret(), secret], "evt_9", int(clock.now().timestamp()) - age, body)


@pytest.mark.parametrize("name, command", [
    ("receiver.py", [sys.executable]), pytest.param("receiver.mjs", ["node"], marks=pytest.mark.needs("node"))])
def test_a_receiver_from_the_docs_takes_what_is_genuine_once(tmp_path, name, command):
    (tmp_path / name).write_text(example(name))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen([*command, tmp_path / name, str(port)], stdout=out, stderr=subprocess.STDOUT,
                                   env=os.environ | {"WEBHOOK_SECRET": SECRET})
    try:
        wait_for(lambda: not socket.socket().connect_ex(("127.0.0.1", port)), what="the receiver")

        def post(headers, body=BODY):
            return requests.post(f"http://127.0.0.1:{port}/", body, headers=headers, timeout=60).status_code

        assert [post(signed()), post(signed())] == [204, 204]
        assert post(signed(secret=signing.new_secret())) == 401
        assert post(signed(), BODY.replace(b"501", b"502")) == 401
        assert post(signed(age=301)) == 401
        assert post({}) == 401
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "out").read_text() == "job.succeeded /v1/jobs/501\n"


@pytest.mark.needs("openssl")
def test_the_shell_example_tells_genuine_from_forged(tmp_path):
    (tmp_path / "verify.sh").write_text(example("verify.sh"))

    def verify(headers, body=BODY):
        command = ["sh", tmp_path / "verify.sh", SECRET, headers.get("X-Webhook-Signature", "")]
        return subprocess.run(command, input=body, capture_output=True).returncode

    assert verify(signed()) == 0
    assert verify(signed(secret=signing.new_secret())) == 1
    assert verify(signed(), BODY + b"\n") == 1
    assert verify(signed(age=301)) == 1
    assert verify({}) == 1
