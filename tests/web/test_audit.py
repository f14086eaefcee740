"""Who did what: every act of the API leaves one line, and only an act does."""

import uuid

import pytest

from tests.stack import Api
from tests.web.making import accept_many, in_state
from tests.web.rules import rule

NOBODY = "http://127.0.0.1:9/hook"      # tests may call loopback; nobody listens there


@pytest.fixture
def actor(house) -> Api:
    """A new person, of whom the audit knows nothing but how the key was made."""
    owner = f"actor-{uuid.uuid4().hex[:12]}"
    session = house.session(owner)
    session.owner = owner
    return session


def acts(house, **wanted) -> list[dict]:
    answer = house.admin.get("/v1/audit", params=wanted)
    assert answer.status_code == 200 and answer.headers["Cache-Control"] == "no-store"
    return answer.json()["acts"]


def told(house, actor) -> list[tuple[str, str]]:
    """What this person did, the oldest first."""
    return [(act["act"], act["subject"]) for act in acts(house, actor=actor.owner)[::-1]]


@rule("8.11")
def test_steering_a_job_is_told_once(house, actor):
    job = f"/v1/jobs/{in_state(actor, 'running')['id']}"
    failed = f"/v1/jobs/{in_state(actor, 'failed')['id']}"
    assert actor.post(f"{job}:retry").status_code == 409        # refused: no act
    assert actor.post(f"{job}:cancel").status_code == 202
    actor.finished(job.rpartition("/")[2])
    assert actor.delete(job).status_code == 200                 # cancelled before: no act
    key = {"Idempotency-Key": "again"}
    made = [actor.post(f"{failed}:retry", headers=key).json()["id"] for _ in range(2)]
    assert made[0] == made[1]
    assert actor.post(f"{job}:purge").status_code == 204
    assert told(house, actor) == [("job.cancel", job), ("job.retry", failed), ("job.purge", job)]
    [retried] = acts(house, subject=failed)
    assert retried["detail"] == {"type": "demo.drill", "made": made[0]} and retried["owner"] == actor.owner
    [purged] = acts(house, subject=job, act="job.purge")
    assert purged["detail"] == {"type": "demo.drill", "status": "cancelled"}
    assert purged["door"] == "api" and purged["key"]["hint"] == actor.key[:8] and purged["requestId"]


@rule("8.11")
def test_each_job_of_a_bulk_request_is_told(house, actor):
    ids = accept_many(house, actor.owner, 3)
    assert actor.post("/v1/jobs:cancel", json={"all": True, "dryRun": True}).json()["counts"]["done"] == 3
    assert told(house, actor) == []
    actor.post("/v1/jobs:cancel", json={"all": True})
    actor.post("/v1/jobs:purge", json={"ids": [str(ids[0])]})
    assert told(house, actor) == [*(("job.cancel", f"/v1/jobs/{id}") for id in ids[::-1]), ("job.purge", f"/v1/jobs/{ids[0]}")]


@rule("8.11")
def test_dialects_are_told_of_alike(house, actor):
    google, snake, azure = (in_state(actor, "queued")["id"] for _ in range(3))
    assert actor.post(f"/v1/operations/{google}:cancel").ok
    assert actor.delete(f"/v1/operations/{google}").ok
    assert actor.post(f"/operations/op-{snake}/cancel").ok
    assert actor.delete(f"/api/RequestStatus/{azure}").ok
    assert told(house, actor) == [("job.cancel", f"/v1/jobs/{google}"), ("job.purge", f"/v1/jobs/{google}"),
                                  ("job.cancel", f"/v1/jobs/{snake}"), ("job.cancel", f"/v1/jobs/{azure}")]


@rule("8.11")
def test_keys_are_told_of_without_themselves(house):
    made = house.admin.post("/v1/keys", json={"owner": "newcomer", "name": "their laptop"}).json()
    path = f"/v1/keys/{made['id']}"
    for _ in range(2):
        house.admin.delete(path)
    revoked, created = acts(house, subject=path)
    assert (created["act"], revoked["act"], created["owner"]) == ("key.create", "key.revoke", "newcomer")
    assert created["detail"] == {"role": "submit", "name": "their laptop", "hint": made["key"][:8]}
    assert made["key"] not in house.admin.get("/v1/audit").text
    with house.command("key", "create", "--owner", "from-the-shell") as process:
        assert process.wait(60) == 0
    [by_hand] = acts(house, act="key.create", owner="from-the-shell")
    assert by_hand["door"] == "command" and by_hand["key"] is None and by_hand["actor"]


@rule("8.11")
def test_endpoints_and_deliveries_are_told_of(house, actor):
    made = actor.post("/v1/webhook-endpoints", json={"url": NOBODY, "events": ["*"]}).json()
    path = f"/v1/webhook-endpoints/{made['id']}"
    actor.patch(path, json={"description": "mine", "status": "disabled"})
    actor.patch(path, json={"status": "disabled"})              # it is: no act
    actor.patch(path, json={"status": "enabled"})
    actor.post(f"{path}:rotate")
    sent = actor.post(f"{path}:ping").json()
    actor.post(f"/v1/deliveries/{sent['id']}:redeliver")
    for _ in range(2):
        actor.delete(path)
    assert told(house, actor) == [
        ("endpoint.create", path), ("endpoint.change", path), ("endpoint.disable", path), ("endpoint.enable", path),
        ("secret.rotate", path), ("delivery.redeliver", f"/v1/deliveries/{sent['id']}"), ("endpoint.delete", path)]
    secrets = [one["secret"] for one in made["secrets"]]
    assert secrets and not any(secret in house.admin.get("/v1/audit").text for secret in secrets)


@rule("8.11")
def test_what_is_deleted_is_told(house, actor):
    upload = actor.post("/v1/files?name=a.txt", data=b"text").json()
    path = f"/v1/artifacts/{upload['id']}"
    for _ in range(2):
        actor.delete(path)
    assert told(house, actor) == [("file.delete", path)]
    [act] = acts(house, subject=path)
    assert act["detail"] == {"name": "a.txt"}


@rule("8.11")
def test_pages_filters_and_who_may_read(house, actor, alice, reader):
    ids = accept_many(house, actor.owner, 5)
    actor.post("/v1/jobs:cancel", json={"all": True})
    first = house.admin.get("/v1/audit", params={"actor": actor.owner, "limit": 2}).json()
    rest = house.admin.get(first["next"]).json()
    seen = [act["subject"] for act in first["acts"] + rest["acts"]]
    assert seen == [f"/v1/jobs/{id}" for id in ids[:4]]
    assert house.admin.get(rest["next"]).json()["next"] is None
    cursor = first["next"].rpartition("cursor=")[2]
    assert house.admin.get(f"/v1/audit?cursor={cursor}").status_code == 400       # of another filter
    refused = house.admin.get("/v1/audit?act=job.eat")
    assert refused.status_code == 400 and "'job.eat'" in refused.json()["detail"]
    for other in (alice, reader):
        assert other.get("/v1/audit").status_code == 403
