"""Who is asking, and what he may do: keys, roles, one-time sign-in links. Only hashes are stored."""

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from jobs import clock
from jobs.core import audit
from jobs.core.audit import Act, Actor
from jobs.db import Reader, Row, Transaction, placeholders

PREFIX = "acc_"
OWNER = re.compile(r"[\w.@+-]{1,100}")
OWNER_FORM = "1 to 100 letters, digits, . @ + - or _"


class Role(StrEnum):
    """submit: submits, sees and steers own jobs; read: sees all, changes nothing; admin: everything."""

    SUBMIT = "submit"
    READ = "read"
    ADMIN = "admin"


@dataclass(frozen=True)
class Caller:
    """The holder of a valid key, or (without a `key_id`) of a signed address."""

    owner: str
    role: Role
    key_id: int | None
    sync_wait: int = 0
    session: str | None = None      # the hash of the dashboard's session by which he came, and when that ends
    session_ends: str | None = None

    @property
    def sees_all(self) -> bool:
        return self.role in (Role.READ, Role.ADMIN)

    @property
    def scope(self) -> str | None:
        """The only owner whose things this caller sees, or None: all."""
        return None if self.sees_all else self.owner


def may_see(caller: Caller, owner: str) -> bool:
    """Whether things of `owner` exist for this caller."""
    return caller.sees_all or caller.owner == owner


def may_submit(caller: Caller) -> bool:
    """Whether the caller may make jobs, uploads and endpoints of his own."""
    return caller.role in (Role.SUBMIT, Role.ADMIN)


def may_steer(caller: Caller, owner: str) -> bool:
    """Whether the caller may cancel, retry or purge things of `owner`."""
    return caller.role == Role.ADMIN or (caller.role == Role.SUBMIT and caller.owner == owner)


_VALID = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)"


def authenticate(reader: Reader, token: str) -> Caller | None:
    """The caller who holds this key, or None when it is unknown, expired or revoked."""
    row = reader.one(f"SELECT * FROM keys WHERE hash = :hash AND {_VALID}", hash=_hash(token), now=clock.wire(clock.now()))
    return _caller(row)


def by_session(reader: Reader, token: str) -> Caller | None:
    """The caller who has signed in; None when he has signed out since, or the session or its key has ended."""
    now = clock.wire(clock.now())
    found = reader.one("SELECT key_id, expires_at FROM sessions WHERE hash = :hash AND expires_at > :now", hash=_hash(token), now=now)
    row = found and reader.one(f"SELECT * FROM keys WHERE id = :id AND {_VALID}", id=found.key_id, now=now)
    return replace(_caller(row), session=_hash(token), session_ends=found.expires_at) if row else None


def live_keys(reader: Reader, key_ids: Iterable[int]) -> set[int]:
    """Those of the keys that are still valid."""
    names, ids = placeholders("key", key_ids)
    rows = reader.all(f"SELECT id FROM keys WHERE id IN ({names}) AND {_VALID}", now=clock.wire(clock.now()), **ids)
    return {row.id for row in rows}


def live_sessions(reader: Reader, hashes: Iterable[str]) -> set[str]:
    """Those of the sessions that have not ended."""
    names, wanted = placeholders("session", hashes)
    rows = reader.all(f"SELECT hash FROM sessions WHERE hash IN ({names}) AND expires_at > :now",
                      now=clock.wire(clock.now()), **wanted)
    return {row.hash for row in rows}


def new_token() -> str:
    """A key that nobody has yet; it opens nothing until it is stored."""
    return PREFIX + secrets.token_urlsafe(32)


def make_key(tx: Transaction, owner: str, role: Role, name: str = "", expires_at: str | None = None,
             token: str | None = None, sync_wait: int = 0, by: Actor | None = None) -> str:
    """Store a new key and answer it; it cannot be read again later. `sync_wait`: seconds that its submissions are held."""
    token = token or new_token()
    row = tx.one("""INSERT INTO keys (hash, hint, owner, role, name, sync_wait, created_at, expires_at)
                    VALUES (:hash, :hint, :owner, :role, :name, :sync_wait, :now, :expires_at) RETURNING *""",
                 hash=_hash(token), hint=token[:8], owner=owner, role=Role(role), name=name, sync_wait=sync_wait, now=tx.now,
                 expires_at=expires_at)
    _note(tx, by, Act.MAKE_KEY, row)
    return token


def ensure_key(tx: Transaction, token: str, owner: str, role: Role, name: str) -> int:
    """Make sure that this very key exists and is valid; its id. For the bootstrap key."""
    row = tx.one("SELECT id FROM keys WHERE hash = :hash", hash=_hash(token))
    if row is None:
        make_key(tx, owner, role, name, token=token)
        row = tx.one("SELECT id FROM keys WHERE hash = :hash", hash=_hash(token))
    tx.run("UPDATE keys SET revoked_at = NULL, expires_at = NULL, role = :role WHERE id = :id", id=row.id, role=role)
    return row.id


def revoke(tx: Transaction, key_id: int, by: Actor | None = None) -> bool:
    """End a key and its sessions; False when there is none, or it has ended before."""
    end_sessions(tx, key_id)
    row = tx.one("UPDATE keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING *", id=key_id, now=tx.now)
    if row is not None:
        _note(tx, by, Act.REVOKE_KEY, row)
    return row is not None


def _note(tx: Transaction, by: Actor | None, act: Act, row: Row) -> None:
    if by is not None:      # else it is the server's own doing
        audit.note(tx, by, act, f"/v1/keys/{row.id}", row.owner, role=row.role, name=row.name, hint=row.hint)


def note_use(tx: Transaction, key_id: int) -> None:
    """Remember that the key was used just now."""
    tx.run("UPDATE keys SET last_used_at = :now WHERE id = :id", id=key_id, now=tx.now)


def make_sign_in_link(tx: Transaction, key_id: int, seconds: float = 3600) -> str:
    """A token that signs in once, as the holder of this key."""
    token = secrets.token_urlsafe(24)
    tx.run("DELETE FROM sign_in_links WHERE expires_at <= :now", now=tx.now)
    tx.run("INSERT INTO sign_in_links (hash, key_id, expires_at) VALUES (:hash, :key_id, :expires_at)",
           hash=_hash(token), key_id=key_id, expires_at=clock.after(seconds))
    return token


def use_sign_in_link(tx: Transaction, token: str) -> Caller | None:
    """Spend the token; None when it is unknown, spent or expired."""
    key_id = tx.value("DELETE FROM sign_in_links WHERE hash = :hash AND expires_at > :now RETURNING key_id",
                      hash=_hash(token), now=tx.now)
    return _caller(tx.one(f"SELECT * FROM keys WHERE id = :id AND {_VALID}", id=key_id, now=tx.now))


def begin_session(tx: Transaction, key_id: int, seconds: float) -> str:
    """A token for the cookie of a browser in which the holder of this key has signed in."""
    token = secrets.token_urlsafe(24)
    tx.run("DELETE FROM sessions WHERE expires_at <= :now", now=tx.now)
    tx.run("INSERT INTO sessions (hash, key_id, expires_at) VALUES (:hash, :key_id, :expires_at)",
           hash=_hash(token), key_id=key_id, expires_at=clock.after(seconds))
    return token


def renew_session(tx: Transaction, session: str, seconds: float) -> None:
    """Let a session that is in use last for `seconds` from now."""
    tx.run("UPDATE sessions SET expires_at = :later WHERE hash = :hash", hash=session, later=clock.after(seconds))


def end_session(tx: Transaction, session: str) -> None:
    """Sign out: no copy of the cookie opens anything from now on."""
    tx.run("DELETE FROM sessions WHERE hash = :hash", hash=session)


def end_sessions(tx: Transaction, key_id: int) -> None:
    """Sign out every browser that has signed in with this key."""
    tx.run("DELETE FROM sessions WHERE key_id = :key_id", key_id=key_id)


def _caller(row: Row | None) -> Caller | None:
    return Caller(row.owner, Role(row.role), row.id, row.sync_wait) if row else None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
