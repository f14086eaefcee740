"""Who is told: registered endpoints, and the secrets by which receivers know us.

A receiver is `endpoint:3`, or the origin of callback URLs (`https://example.com`) of one owner. Each has secrets of its
own, so that no receiver can forge what is sent to another.
"""

import json
from typing import Any

from jobs import clock
from jobs.addresses import Target
from jobs.db import Reader, Row, Transaction, placeholders
from jobs.webhooks import signing

OVERLAP = 86400.0  # seconds for which the former secret still signs after a rotation
MOST = 100         # endpoints of one owner: each event is written once for each of them


def of_endpoint(endpoint_id: int) -> str:
    """The receiver that a registered endpoint is."""
    return f"endpoint:{endpoint_id}"


def of_callback(target: Target) -> str:
    """The receiver behind a job's callbackUrl."""
    return target.origin


# Secrets


def secrets_of(reader: Reader, owner: str, receiver: str) -> list[Row]:
    """The active secrets, the newest first."""
    return reader.all("""SELECT secret, created_at, expires_at FROM callback_secrets WHERE owner = :owner
                         AND receiver = :receiver AND (expires_at IS NULL OR expires_at > :now) ORDER BY id DESC""",
                      owner=owner, receiver=receiver, now=clock.wire(clock.now()))


def ensure_secret(tx: Transaction, owner: str, receiver: str) -> None:
    """Make the first secret, if there is none."""
    if not secrets_of(tx, owner, receiver):
        _add_secret(tx, owner, receiver)


def rotate(tx: Transaction, owner: str, receiver: str, overlap: float = OVERLAP) -> list[Row]:
    """A new secret takes over; the last signs beside it for `overlap` seconds, older ones no more. The active ones."""
    tx.run("DELETE FROM callback_secrets WHERE owner = :owner AND receiver = :receiver AND expires_at <= :now",
           owner=owner, receiver=receiver, now=tx.now)
    last = tx.value("""SELECT max(id) FROM callback_secrets WHERE owner = :owner AND receiver = :receiver
                       AND expires_at IS NULL""", owner=owner, receiver=receiver)
    tx.run("UPDATE callback_secrets SET expires_at = CASE WHEN id = :last THEN :later ELSE :now END "
           "WHERE owner = :owner AND receiver = :receiver AND (expires_at IS NULL OR expires_at > :now)",
           last=last, later=clock.after(overlap), now=tx.now, owner=owner, receiver=receiver)
    _add_secret(tx, owner, receiver)
    return secrets_of(tx, owner, receiver)


def rotate_all(tx: Transaction, owner: str | None = None, receiver: str | None = None, overlap: float = OVERLAP) -> int:
    """Rotate every secret (of one owner, of one receiver); how many that were."""
    rows = tx.all("""SELECT DISTINCT owner, receiver FROM callback_secrets WHERE expires_at IS NULL
                     AND owner = coalesce(:owner, owner) AND receiver = coalesce(:receiver, receiver)""",
                  owner=owner, receiver=receiver)
    for row in rows:
        rotate(tx, row.owner, row.receiver, overlap)
    return len(rows)


def _add_secret(tx: Transaction, owner: str, receiver: str) -> None:
    tx.run("""INSERT INTO callback_secrets (owner, receiver, secret, created_at)
              VALUES (:owner, :receiver, :secret, :now)""",
           owner=owner, receiver=receiver, secret=signing.new_secret(), now=tx.now)


# Registered endpoints


def register(tx: Transaction, owner: str, url: str, events: list[str], description: str = "") -> Row:
    """Store an endpoint with a secret of its own; `url` has passed the guard."""
    row = tx.one("""INSERT INTO webhook_endpoints (owner, url, events, description, created_at, updated_at)
                    VALUES (:owner, :url, :events, :description, :now, :now) RETURNING *""",
                 owner=owner, url=url, events=json.dumps(events), description=description, now=tx.now)
    ensure_secret(tx, owner, of_endpoint(row.id))
    return row


def change(tx: Transaction, endpoint_id: int, *, url: str, events: list[str], description: str) -> Row | None:
    """Write an endpoint's new members."""
    return tx.one("""UPDATE webhook_endpoints SET url = :url, events = :events, description = :description,
                     updated_at = :now WHERE id = :id RETURNING *""",
                  id=endpoint_id, url=url, events=json.dumps(events), description=description, now=tx.now)


def get(reader: Reader, endpoint_id: int) -> Row | None:
    """One endpoint."""
    return reader.one("SELECT * FROM webhook_endpoints WHERE id = :id", id=endpoint_id)


def listed(reader: Reader, owner: str | None) -> list[Row]:
    """The endpoints of an owner, or of everybody."""
    return reader.all("SELECT * FROM webhook_endpoints WHERE owner = coalesce(:owner, owner) ORDER BY id", owner=owner)


def failing(reader: Reader, owner: str | None) -> int:
    """How many endpoints of an owner (None: of all) fail now or were disabled."""
    return sum(1 for row in listed(reader, owner) if row.failing_since or row.disabled_at)


def subscribed(reader: Reader, owners: set[str]) -> dict[str, list[tuple[Row, set[str]]]]:
    """Per owner the enabled endpoints, each with the types of events that it wants."""
    names, values = placeholders("owner", owners)
    found: dict[str, list[tuple[Row, set[str]]]] = {}
    for row in reader.all(f"""SELECT * FROM webhook_endpoints WHERE disabled_at IS NULL AND owner IN ({names})
                              ORDER BY id""", **values):
        found.setdefault(row.owner, []).append((row, set(json.loads(row.events))))
    return found


def enable(tx: Transaction, endpoint_id: int) -> bool:
    """The way back of a disabled endpoint; False when it was not disabled."""
    return bool(tx.run("""UPDATE webhook_endpoints SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL,
                          updated_at = :now WHERE id = :id AND disabled_at IS NOT NULL""", id=endpoint_id, now=tx.now))


def disable(tx: Transaction, endpoint_id: int, reason: str) -> bool:
    """Send nothing more there; what was on its way is given up with the same words."""
    changed = tx.run("""UPDATE webhook_endpoints SET disabled_at = :now, disabled_reason = :reason, updated_at = :now
                        WHERE id = :id AND disabled_at IS NULL""", id=endpoint_id, reason=reason, now=tx.now)
    if changed:
        _give_up(tx, endpoint_id, f"The endpoint was disabled: {reason}")
    return bool(changed)


def remove(tx: Transaction, endpoint_id: int) -> None:
    """Delete an endpoint and its secrets; the record of its deliveries stays."""
    _give_up(tx, endpoint_id, "The endpoint was deleted.")
    tx.run("DELETE FROM callback_secrets WHERE receiver = :receiver", receiver=of_endpoint(endpoint_id))
    tx.run("DELETE FROM webhook_endpoints WHERE id = :id", id=endpoint_id)


def note_success(tx: Transaction, endpoint_id: int) -> None:
    """The endpoint works (again)."""
    tx.run("UPDATE webhook_endpoints SET failing_since = NULL WHERE id = :id AND failing_since IS NOT NULL",
           id=endpoint_id)


def note_failure(tx: Transaction, endpoint_id: int, patience: float) -> None:
    """The endpoint failed; after `patience` seconds without any success it is disabled."""
    tx.run("UPDATE webhook_endpoints SET failing_since = :now WHERE id = :id AND failing_since IS NULL",
           id=endpoint_id, now=tx.now)
    since = tx.value("SELECT failing_since FROM webhook_endpoints WHERE id = :id", id=endpoint_id)
    if since and since <= clock.after(-patience):
        disable(tx, endpoint_id, f"Every delivery since {since} has failed.")


def render(row: Row) -> dict[str, Any]:
    """An endpoint as it is shown."""
    path = f"/v1/webhook-endpoints/{row.id}"
    return {
        "id": str(row.id), "url": row.url, "events": json.loads(row.events), "description": row.description,
        "status": "disabled" if row.disabled_at else "enabled", "disabledAt": row.disabled_at,
        "disabledReason": row.disabled_reason, "failingSince": row.failing_since, "owner": row.owner,
        "createdAt": row.created_at, "updatedAt": row.updated_at,
        "links": {"self": path, "secrets": f"{path}/secrets", "deliveries": f"{path}/deliveries",
                  "ping": f"{path}:ping", "rotate": f"{path}:rotate", "redeliver": f"{path}:redeliver"},
    }


def render_secrets(rows: list[Row]) -> list[dict[str, Any]]:
    """The active secrets as their owner sees them."""
    return [{"secret": row.secret, "createdAt": row.created_at, "expiresAt": row.expires_at} for row in rows]


def _give_up(tx: Transaction, endpoint_id: int, note: str) -> None:
    tx.run("UPDATE deliveries SET state = 'failed', next_at = NULL, note = :note, updated_at = :now "
           "WHERE endpoint_id = :id AND state = 'pending'", id=endpoint_id, note=note, now=tx.now)
