"""From events to deliveries: follows the table of events with a cursor of its own.

Deliveries are written in the transaction that moves the cursor, so an event is never forgotten and never doubled.
"""

import json
import secrets

from jobs.addresses import BadTarget, parse_url
from jobs.core.states import TERMINAL
from jobs.db import Database, Row, Transaction
from jobs.webhooks import catalogue, receivers
from jobs.webhooks.schedule import DELAYS

CURSOR = "callbacks"
_BATCH = 200
_ENDS = {f"job.{status}" for status in TERMINAL}


def follow(db: Database) -> int:
    """Make deliveries of the next events, at most 200; how many events there were."""
    cursor = db.read().value("SELECT value FROM meta WHERE name = :name", name=CURSOR) or 0
    if not db.read().value("SELECT 1 FROM events WHERE id > :cursor LIMIT 1", cursor=cursor):
        return 0
    return db.write(_advance, durable=False)


def ping(tx: Transaction, endpoint: Row) -> int:
    """A delivery that only says that the endpoint can be reached; its id."""
    message_id = f"evt_ping_{secrets.token_hex(8)}"
    body = {"id": message_id, "type": "ping", "createdAt": tx.now,
            "data": {"endpoint": f"/v1/webhook-endpoints/{endpoint.id}"}}
    return _insert(tx, owner=endpoint.owner, job_id=None, endpoint_id=endpoint.id, url=endpoint.url,
                   receiver=receivers.of_endpoint(endpoint.id), message_id=message_id, type="ping",
                   idempotency_key=f"endpoint-{endpoint.id}.ping.{message_id[9:]}", body=body, traceparent=None,
                   step=len(DELAYS))  # one attempt: whoever asked is waiting for the answer


def _advance(tx: Transaction) -> int:
    cursor = tx.value("SELECT value FROM meta WHERE name = :name", name=CURSOR) or 0
    rows = tx.all("""SELECT events.*, jobs.owner, jobs.traceparent FROM events JOIN jobs ON jobs.id = events.job_id
                     WHERE events.id > :cursor ORDER BY events.id LIMIT :limit""", cursor=cursor, limit=_BATCH)
    if not rows:
        return 0
    endpoints = receivers.subscribed(tx, {row.owner for row in rows})
    for row in rows:
        if catalogue.is_public(row.type):
            _fan_out(tx, row, endpoints.get(row.owner, []))
    tx.run("""INSERT INTO meta (name, value) VALUES (:name, :value)
              ON CONFLICT (name) DO UPDATE SET value = excluded.value""", name=CURSOR, value=rows[-1].id)
    return len(rows)


def _fan_out(tx: Transaction, event: Row, endpoints: list[tuple[Row, set[str]]]) -> None:
    common = {"owner": event.owner, "job_id": event.job_id, "message_id": f"evt_{event.id}", "type": event.type,
              "idempotency_key": _idempotency_key(event), "body": _body(event), "traceparent": event.traceparent}
    if event.callback_url and event.type in _ENDS:
        try:
            receiver = receivers.of_callback(parse_url(event.callback_url))
        except BadTarget:
            receiver = event.callback_url  # accepted under older rules; each attempt will say why it is refused
        receivers.ensure_secret(tx, event.owner, receiver)
        _insert(tx, endpoint_id=None, receiver=receiver, url=event.callback_url, **common)
    for endpoint, wanted in endpoints:
        if wanted & {event.type, "*"}:
            _insert(tx, endpoint_id=endpoint.id, receiver=receivers.of_endpoint(endpoint.id), url=endpoint.url,
                    **common)


def _body(event: Row) -> dict:
    """What happened and where to read it; nothing else leaves this way."""
    data = {"job": f"/v1/jobs/{event.job_id}", "version": event.version}
    if not event.type.startswith("job."):
        data["resource"] = event.subject
    return {"id": f"evt_{event.id}", "type": event.type, "createdAt": event.created_at, "data": data}


def _idempotency_key(event: Row) -> str:
    """`{subject}.{event}.{attempt}`. Several jobs in turn may make a resource, so its subject names the job too."""
    noun, _, what = event.type.rpartition(".")
    subject = f"job-{event.job_id}"
    if noun != "job":
        subject = f"{noun}-{event.subject.rpartition('/')[2]}-{subject}"
    return f"{subject}.{what}.{event.attempt}"


def _insert(tx: Transaction, *, body: dict, step: int = 0, **values) -> int:
    return tx.insert("""
        INSERT INTO deliveries (owner, job_id, endpoint_id, receiver, url, message_id, type, idempotency_key, body,
            traceparent, state, attempts, step, next_at, created_at, updated_at)
        VALUES (:owner, :job_id, :endpoint_id, :receiver, :url, :message_id, :type, :idempotency_key, :body,
            :traceparent, 'pending', 0, :step, :now, :now, :now) RETURNING id""",
        body=json.dumps(body, separators=(",", ":")), step=step, now=tx.now, **values)
