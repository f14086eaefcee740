"""Idempotency keys (draft-ietf-httpapi-idempotency-key-header-07): one key, one job.

A key belongs to its owner, method and path. It is claimed in the transaction that inserts the job, so that of parallel
requests exactly one inserts; it lives as long as its job's row.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from jobs.db import Transaction


class KeyReused(Exception):
    """The key was used for another body."""


@dataclass(frozen=True)
class Claim:
    """A key as it is looked up, and the fingerprint of the body it came with."""

    owner: str
    method: str
    path: str
    key: str
    fingerprint: str


def fingerprint(body: Any) -> str:
    """Equal for equal JSON, however it was spaced, ordered, or its numbers written: 10 and 10.0 are one number."""
    text = json.dumps(_plain(body), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def find(tx: Transaction, claim: Claim) -> int | None:
    """The id of the job that this key made, or None. KeyReused when the body was another."""
    row = tx.one("""SELECT job_id, fingerprint FROM idempotency
                    WHERE owner = :owner AND method = :method AND path = :path AND key = :key""",
                 owner=claim.owner, method=claim.method, path=claim.path, key=claim.key)
    if row is None:
        return None
    if row.fingerprint != claim.fingerprint:
        raise KeyReused
    return row.job_id


def claim(tx: Transaction, claim: Claim, job_id: int) -> None:
    """Bind the key to the job."""
    tx.run("""INSERT INTO idempotency (owner, method, path, key, fingerprint, job_id, created_at)
              VALUES (:owner, :method, :path, :key, :fingerprint, :job_id, :now)""", **vars(claim), job_id=job_id, now=tx.now)
