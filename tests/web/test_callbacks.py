"""Callbacks over HTTP: who may register, read, rotate and repeat what, and what is refused."""

import json

import pytest

import jobs.webhooks.models  # noqa: F401 - its tables belong to the schema
from app import create_app
from jobs import settings as settings_module
from jobs.core import access, claim, lifecycle, models
from jobs.core.outcome import Succeeded
from jobs.core.submission import Submission, accept
from jobs.db import Database
from jobs.targets import Guard
from jobs.webhooks import receivers
from jobs.webhooks.delivery import Sender
from tests.outbound import http_server, reply

OWNERS = {"alice": "submit", "bob": "submit", "rita": "read", "admin": "admin"}


class World:
    """The app, one client for each person, and a sender."""

    def __init__(self, folder, **overrides):
        self.settings = settings_module.load({}, data_dir=str(folder), allowed_targets="127.0.0.1", **overrides)
        self.db = Database(self.settings)
        models.prepare(self.db, self.settings)
        self.keys = self.db.write(
            lambda tx: {owner: access.make_key(tx, owner, role) for owner, role in OWNERS.items()})
        self.client = create_app(self.settings).test_client()
        self.sender = Sender(self.db, self.settings, Guard(self.settings.allowed_targets))

    def __call__(self, owner, method, path, **options):
        return self.client.open(path, method=method, headers={"Authorization": f"Bearer {self.keys[owner]}"}, **options)

    def job(self, owner="alice", callback_url=None):
        asked = Submission(type="demo.drill", owner=owner, queue="default", payload="{}", timeout=60, retention=600,
                           max_attempts=1, start_within=600, callback_url=callback_url)

        def live(tx):
            job_id = accept(tx, asked).job.id
            claim.claim_next(tx, "default", "worker")
            lifecycle.settle(tx, job_id, 1, Succeeded("null"))
            return job_id

        return self.db.write(live)

    def send(self):
        self.sender.tick()
        assert self.sender.settled(60)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.sender.close()
    made.db.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A world in which every request is refused."""
    made = World(tmp_path_factory.mktemp("shared"))
    yield made
    made.db.close()


@pytest.fixture
def url():
    """A receiver that answers 200."""
    with http_server(lambda handler: reply(handler, body=b"thanks")) as port:
        yield f"http://127.0.0.1:{port}/hook"


def register(world, url, owner="alice", events=("job.succeeded",)):
    answer = world(owner, "POST", "/v1/webhook-endpoints", json={"url": url, "events": list(events)})
    assert answer.status_code == 201, answer.json
    return answer.json


def test_an_endpoint_is_registered_read_changed_and_deleted(world, url):
    made = register(world, url)
    path = made["links"]["self"]
    assert made["secrets"][0]["secret"].startswith("whsec_") and made["status"] == "enabled"
    shown = world("alice", "GET", path)
    assert shown.json == {name: value for name, value in made.items() if name != "secrets"}
    assert world("alice", "GET", "/v1/webhook-endpoints").json == {"endpoints": [shown.json]}
    changed = world("alice", "PATCH", path, json={"events": ["*"], "description": "all", "url": url + "2"}).json
    assert (changed["events"], changed["description"], changed["url"]) == (["*"], "all", url + "2")
    assert world("alice", "PATCH", path, json={"status": "disabled"}).json["status"] == "disabled"
    assert world("alice", "PATCH", path, json={"status": "enabled"}).json["disabledAt"] is None
    assert world("alice", "DELETE", path).status_code == 204
    assert world("alice", "GET", path).status_code == 404
    assert world.db.read().value("SELECT count(*) FROM callback_secrets") == 0


@pytest.mark.parametrize("body, pointer", [
    ({"events": ["*"]}, "#/url"), ({"url": "https://example.com/"}, "#/events"),
    ({"url": "https://example.com/", "events": []}, "#/events"),
    ({"url": "https://example.com/", "events": ["job.succeeded", "job.exploded"]}, "#/events/1"),
    ({"url": "https://example.com/", "events": ["job.queued"]}, "#/events/0"),
    ({"url": "https://example.com/", "events": ["*"], "secret": "x"}, "#/secret"),
    ({"url": 7, "events": ["*"]}, "#/url"),
])
def test_a_bad_registration_names_the_member(shared, body, pointer):
    answer = shared("alice", "POST", "/v1/webhook-endpoints", json=body)
    assert (answer.status_code, answer.json["errors"][0]["pointer"]) == (422, pointer)
    assert shared("alice", "GET", "/v1/webhook-endpoints").json == {"endpoints": []}


def test_an_endpoint_inside_is_refused(world, url):
    made = register(world, url)
    for target in ("http://169.254.169.254/", "http://127.0.0.2:6379/", "http://[::1]/", "ftp://example.com/"):
        for method, path in (("POST", "/v1/webhook-endpoints"), ("PATCH", made["links"]["self"])):
            answer = world("alice", method, path, json={"url": target, "events": ["*"]})
            assert (answer.status_code, answer.json["type"].rpartition("/")[2]) == (422, "target-forbidden")
            assert answer.json["errors"][0]["pointer"] == "#/url"


def test_what_is_foreign_looks_like_what_does_not_exist(world, url):
    made = register(world, url)
    job_id = world.job(callback_url=url)
    world.send()
    [first, *_] = world("alice", "GET", f"/v1/jobs/{job_id}/deliveries").json["deliveries"]
    endpoint, delivery = made["links"]["self"], f"/v1/deliveries/{first['id']}"
    for method, path in (("GET", endpoint), ("PATCH", endpoint), ("DELETE", endpoint), ("POST", f"{endpoint}:ping"),
                         ("POST", f"{endpoint}:rotate"), ("POST", f"{endpoint}:redeliver"),
                         ("GET", f"{endpoint}/secrets"), ("GET", f"{endpoint}/deliveries"), ("GET", delivery), ("POST", f"{delivery}:redeliver"),
                         ("GET", f"/v1/jobs/{job_id}/deliveries")):
        body = {} if method != "GET" else None
        foreign = world("bob", method, path, json=body)
        unknown = world("bob", method, path.replace("/1", "/999").replace("/2", "/999"), json=body)
        assert (foreign.status_code, foreign.data) == (404, unknown.data), (method, path)
    assert world("bob", "GET", "/v1/webhook-endpoints").json == {"endpoints": []}


def test_the_role_read_sees_but_changes_nothing_and_learns_no_secret(world, url):
    path = register(world, url)["links"]["self"]
    job_id = world.job(callback_url=url)
    world.send()
    assert world("rita", "GET", path).status_code == 200
    [first, *_] = world("rita", "GET", f"/v1/jobs/{job_id}/deliveries").json["deliveries"]
    assert "excerpt" not in first["attempts"][0]
    for method, target in (("PATCH", path), ("DELETE", path), ("POST", f"{path}:ping"), ("POST", f"{path}:rotate"),
                           ("GET", f"{path}/secrets"), ("POST", "/v1/webhook-endpoints"),
                           ("POST", f"/v1/deliveries/{first['id']}:redeliver"), ("POST", "/v1/deliveries:redeliver"),
                           ("GET", "/v1/callback-secrets?origin=https://a.example"),
                           ("POST", "/v1/callback-secrets:rotate")):
        assert world("rita", method, target, json={} if method != "GET" else None).status_code == 403, (method, target)


def test_an_admin_sees_what_the_receiver_answered(world, url):
    job_id = world.job(callback_url=url)
    world.send()
    path = f"/v1/jobs/{job_id}/deliveries"
    [shown] = world("admin", "GET", path).json["deliveries"]
    assert (shown["state"], shown["attempts"][0]["excerpt"]) == ("delivered", "thanks")
    [own] = world("alice", "GET", path).json["deliveries"]
    assert "excerpt" not in own["attempts"][0] and own["attempts"][0]["status"] == 200


def test_a_delivery_is_repeated_by_hand(world, url):
    job_id = world.job(callback_url=url)
    world.send()
    [first] = world("alice", "GET", f"/v1/jobs/{job_id}/deliveries").json["deliveries"]
    again = world("alice", "POST", first["links"]["redeliver"])
    assert (again.status_code, again.json["state"]) == (202, "pending")
    world.send()
    shown = world("alice", "GET", f"/v1/deliveries/{first['id']}").json
    assert [attempt["status"] for attempt in shown["attempts"]] == [200, 200]


def test_what_failed_since_a_time_is_repeated(world, url):
    path = register(world, url)["links"]["self"]
    world.job()
    world("alice", "PATCH", path, json={"status": "disabled"})
    world.send()  # the event came while nobody listened
    world("alice", "PATCH", path, json={"status": "enabled"})
    world.job()
    world.sender.tick()
    assert world.sender.settled(60)
    world.db.write(lambda tx: tx.run("UPDATE deliveries SET state = 'failed', next_at = NULL"))
    since = {"since": "2020-01-01T00:00:00Z"}
    assert world("bob", "POST", "/v1/deliveries:redeliver", json=since).json == {"redelivered": 0}
    assert world("alice", "POST", f"{path}:redeliver", json={"since": "2020"}).status_code == 422
    answer = world("alice", "POST", f"{path}:redeliver", json=since)
    assert (answer.status_code, answer.json) == (202, {"redelivered": 1})
    world("alice", "PATCH", path, json={"status": "disabled"})
    answer = world("alice", "POST", f"{path}:redeliver", json=since)
    assert (answer.status_code, answer.json["type"].rpartition("/")[2]) == (409, "endpoint-disabled")
    [row] = world("alice", "GET", f"{path}/deliveries").json["deliveries"]
    assert world("alice", "POST", row["links"]["redeliver"]).status_code == 409


def test_a_ping_shows_whether_an_endpoint_works(world, url):
    path = register(world, url)["links"]["self"]
    ping = world("alice", "POST", f"{path}:ping")
    assert (ping.status_code, ping.json["type"], ping.json["state"]) == (202, "ping", "pending")
    world.send()
    assert world("alice", "GET", f"/v1/deliveries/{ping.json['id']}").json["state"] == "delivered"


def test_deliveries_of_an_endpoint_come_in_pages(world, url):
    path = register(world, url)["links"]["self"]
    for _ in range(5):
        world("alice", "POST", f"{path}:ping")
    found, following = [], f"{path}/deliveries?limit=2"
    while following:
        page = world("alice", "GET", following).json
        found += [row["id"] for row in page["deliveries"]]
        following = page["next"]
    assert found == ["5", "4", "3", "2", "1"]
    assert world("alice", "GET", f"{path}/deliveries?cursor=xyz").status_code == 400


def test_secrets_of_an_origin_and_their_rotation(world):
    ask = "/v1/callback-secrets?origin=https://Hooks.Example:443/any/path"
    first = world("alice", "GET", ask)
    assert first.json["origin"] == "https://hooks.example" and first.headers["Cache-Control"] == "no-store"
    assert world("alice", "GET", ask).json == first.json
    assert world("bob", "GET", ask).json["secrets"] != first.json["secrets"]
    rotated = world("alice", "POST", "/v1/callback-secrets:rotate", json={"origin": "https://hooks.example"}).json
    assert rotated["secrets"][1]["secret"] == first.json["secrets"][0]["secret"]
    assert rotated["secrets"][0]["expiresAt"] is None and rotated["secrets"][1]["expiresAt"]
    for query in ("", "?origin=", "?origin=nonsense", "?origin=https://a.example&x=1"):
        assert world("alice", "GET", f"/v1/callback-secrets{query}").status_code == 400
    assert world("alice", "POST", "/v1/callback-secrets:rotate", json={"origin": "nonsense"}).status_code == 422


def test_secrets_of_an_endpoint_and_their_rotation(world, url):
    made = register(world, url)
    path = made["links"]["self"]
    rotated = world("alice", "POST", f"{path}:rotate").json["secrets"]
    assert rotated == world("alice", "GET", f"{path}/secrets").json["secrets"]
    assert rotated[1]["secret"] == made["secrets"][0]["secret"]


def test_the_catalogue_lists_what_can_be_subscribed(world):
    shown = world("rita", "GET", "/v1/event-types").json["eventTypes"]
    names = [event["type"] for event in shown]
    assert names[:6] == ["job.started", "job.succeeded", "job.failed", "job.cancelled", "job.partialSuccess", "ping"]
    assert {"video.ready", "video.failed"} <= set(names)
    assert all(event["schema"]["type"] == "object" for event in shown)
    assert world.client.get("/v1/event-types").status_code == 401
    assert json.dumps(shown)


def test_an_owner_has_a_bounded_number_of_endpoints(world, url):
    world.db.write(lambda tx: [receivers.register(tx, "alice", url, ["*"]) for _ in range(receivers.MOST)])
    answer = world("alice", "POST", "/v1/webhook-endpoints", json={"url": url, "events": ["*"]})
    assert answer.status_code == 422 and "100" in answer.json["detail"]
    register(world, url, owner="bob")


def test_every_operation_is_described(world):
    """What the router knows of this room and what /openapi.json says of it are the same."""
    described = world.client.get("/openapi.json").json
    routed = {(method.lower(), rule.rule.replace("<id:", "<").translate(str.maketrans("<>", "{}")))
              for rule in world.client.application.url_map.iter_rules() if rule.endpoint.startswith("callbacks.")
              for method in rule.methods - {"HEAD", "OPTIONS"}}
    names = ("endpoint_id", "delivery_id", "job_id")
    for name in names:
        routed = {(method, path.replace("{%s}" % name, "{id}")) for method, path in routed}
    assert routed <= {(method, path) for path, methods in described["paths"].items() for method in methods}
    assert {"job.succeeded", "video.ready", "ping"} <= set(described["webhooks"])
