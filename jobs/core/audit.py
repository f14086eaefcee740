"""Who did what: cancelled, retried, purged, made and revoked keys, changed endpoints.

Each line is written in the transaction of the act itself, so that there is none without the other. What the server does
by itself (expiry, lost workers, failing endpoints) is no act; the events of a job tell it.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobs import clock
from jobs.db import Reader, Row, Transaction


class Act(StrEnum):
    """What can be done. The subject is the path of what it was done to."""

    CANCEL = "job.cancel"
    RETRY = "job.retry"
    PURGE = "job.purge"
    DELETE_RESOURCE = "resource.delete"
    WITHDRAW_FILE = "file.delete"
    MAKE_KEY = "key.create"
    REVOKE_KEY = "key.revoke"
    MAKE_ENDPOINT = "endpoint.create"
    CHANGE_ENDPOINT = "endpoint.change"
    ENABLE_ENDPOINT = "endpoint.enable"
    DISABLE_ENDPOINT = "endpoint.disable"
    DELETE_ENDPOINT = "endpoint.delete"
    ROTATE_SECRET = "secret.rotate"
    REDELIVER = "delivery.redeliver"


class Door(StrEnum):
    """The way by which somebody came: a request to the API, a page of the dashboard, a command on the server's machine."""

    API = "api"
    DASHBOARD = "dashboard"
    COMMAND = "command"


@dataclass(frozen=True)
class Actor:
    """Who acts: the owner of a key, or with `Door.COMMAND` an account of the machine. `request_id` is that of the log."""

    name: str
    door: Door
    key_id: int | None = None
    request_id: str | None = None


def note(tx: Transaction, actor: Actor, act: Act, subject: str, owner: str | None = None, **detail: Any) -> None:
    """Write an act down. `owner` is whose thing the subject is; `detail` is what one would want to know later."""
    tx.run("""INSERT INTO audit (at, actor, door, key_id, request_id, act, subject, owner, detail)
              VALUES (:now, :actor, :door, :key_id, :request_id, :act, :subject, :owner, :detail)""",
           now=tx.now, actor=actor.name, door=actor.door, key_id=actor.key_id, request_id=actor.request_id, act=act,
           subject=subject, owner=owner, detail=json.dumps(detail, ensure_ascii=False, separators=(",", ":")))


def page(reader: Reader, limit: int, before: int | None = None, **wanted: str) -> list[Row]:
    """Acts, the newest first, behind the id `before`; `wanted` narrows by act, actor, subject or owner.

    Each bears `key_name` and `key_hint` of the key that was used.
    """
    where = "".join(f" AND audit.{name} = :{name}" for name in sorted(wanted))
    return reader.all(f"""SELECT audit.*, keys.name AS key_name, keys.hint AS key_hint
                          FROM audit LEFT JOIN keys ON keys.id = audit.key_id
                          WHERE audit.id < :before{where} ORDER BY audit.id DESC LIMIT :limit""",
                      before=before or 2**62, limit=limit, **wanted)


def of_subject(reader: Reader, subject: str, limit: int = 50) -> list[Row]:
    """What was done to one thing, the oldest first; the last `limit` acts."""
    return page(reader, limit, subject=subject)[::-1]


def forget(tx: Transaction, seconds: float, limit: int = 200) -> int:
    """Delete what is older than `seconds`, at most `limit` acts; how many there were."""
    return tx.run("""DELETE FROM audit WHERE id IN (
                       SELECT id FROM audit WHERE at <= :before ORDER BY at LIMIT :limit)""",
                  before=clock.after(-seconds), limit=limit)


def render(row: Row) -> dict[str, Any]:
    """An act as the API shows it."""
    key = {"id": str(row.key_id), "name": row.key_name, "hint": row.key_hint} if row.key_id is not None else None
    return {"id": str(row.id), "at": row.at, "act": row.act, "subject": row.subject, "owner": row.owner, "actor": row.actor,
            "door": row.door, "key": key, "requestId": row.request_id, "detail": json.loads(row.detail)}
