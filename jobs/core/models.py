"""The tables. Timestamps are fixed-width RFC 3339 text, JSON columns hold ready fragments: the wire form is stored.

The hot paths speak SQL through `jobs.db`; the ORM serves administration and the making of the schema.
"""

from sqlalchemy import CheckConstraint, ForeignKey, Index, Sequence, create_engine
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateSequence

from jobs.core import people, schema  # noqa: F401 - people: its tables belong to the schema
from jobs.core.base import Base, where
from jobs.core.states import ACTIVE, Status
from jobs.db import Database
from jobs.settings import Settings

_active = ", ".join(f"'{status}'" for status in sorted(ACTIVE))
_known = ", ".join(f"'{status}'" for status in Status)


class Job(Base):
    """One execution. A tombstone is the same row, emptied: `purged_at` is set; id, owner, version and key stay."""

    __tablename__ = "jobs"
    id: Mapped[int] = mapped_column(primary_key=True)
    version: Mapped[int]
    owner: Mapped[str]
    type: Mapped[str]
    queue: Mapped[str]
    status: Mapped[str]
    priority: Mapped[int]                        # 0 high, 1 normal, 2 low
    progress: Mapped[int | None]                 # null: the length is unknown
    stage: Mapped[str | None]
    eta: Mapped[str | None]
    payload: Mapped[str]                         # JSON as shown, secrets covered
    payload_private: Mapped[str | None]          # JSON as the handler gets it, where that differs
    payload_size: Mapped[int]
    tags: Mapped[str]                            # JSON array
    callback_url: Mapped[str | None]
    timeout: Mapped[int]                         # seconds
    retention: Mapped[int]                       # seconds from the end to expiry
    result: Mapped[str | None]                   # JSON
    result_size: Mapped[int] = mapped_column(default=0)
    error: Mapped[str | None]                    # JSON, a problem whose type is a path
    attempt: Mapped[int]
    max_attempts: Mapped[int]
    next_attempt_at: Mapped[str | None]
    created_at: Mapped[str]
    updated_at: Mapped[str]
    started_at: Mapped[str | None]
    heartbeat_at: Mapped[str | None]
    finished_at: Mapped[str | None]
    cancel_requested_at: Mapped[str | None]
    not_before: Mapped[str | None]
    due_at: Mapped[str | None]                   # while queued: when it may start
    start_by: Mapped[str | None]                 # the end of its queueTtl; null once started
    expires_at: Mapped[str | None]
    purged_at: Mapped[str | None]
    retry_of: Mapped[int | None]
    resource_id: Mapped[int | None]
    resource: Mapped[str | None]                 # path of the business resource
    traceparent: Mapped[str | None]

    __table_args__ = (
        CheckConstraint(f"status IN ({_known})", name="status_known"),
        CheckConstraint(f"(finished_at IS NULL) = (status IN ({_active}))", name="finished_iff_terminal"),
        CheckConstraint("(due_at IS NOT NULL) = (status = 'queued')", name="due_iff_queued"),
        CheckConstraint("progress BETWEEN 0 AND 100", name="progress_range"),
        Index("jobs_version", "version", unique=True),
        Index("jobs_owner", "owner", "id"),
        Index("jobs_status", "status", "id", **where("purged_at IS NULL")),
        Index("jobs_owner_version", "owner", "version"),
        Index("jobs_queued", "queue", "priority", "owner", "due_at", "id", **where("status = 'queued'")),
        Index("jobs_due", "queue", "due_at", **where("status = 'queued'")),
        Index("jobs_start_by", "start_by", **where("status = 'queued' AND start_by IS NOT NULL")),
        Index("jobs_expiring", "expires_at", **where("expires_at IS NOT NULL AND purged_at IS NULL")),
        Index("jobs_finished", "status", "finished_at", **where("finished_at IS NOT NULL")),
        Index("jobs_tombstones", "purged_at", **where("purged_at IS NOT NULL")),
        {"sqlite_autoincrement": True},
    )


class Lease(Base):
    """Who runs a job now. `beat` grows while the worker lives; `cancel` is how a cancel reaches it."""

    __tablename__ = "leases"
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"), primary_key=True, autoincrement=False)
    attempt: Mapped[int]
    worker: Mapped[str]
    beat: Mapped[int] = mapped_column(default=0)
    cancel: Mapped[int] = mapped_column(default=0)
    started_at: Mapped[str]


class Attempt(Base):
    """One try at a job, kept as history."""

    __tablename__ = "attempts"
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"), primary_key=True, autoincrement=False)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    worker: Mapped[str]
    started_at: Mapped[str]
    ended_at: Mapped[str | None]
    outcome: Mapped[str | None]                  # a terminal status, or requeued
    error: Mapped[str | None]                    # JSON


class Cleanup(Base):
    """What a type declares to run after an attempt that did not succeed; gone once it has worked."""

    __tablename__ = "cleanups"
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"), primary_key=True, autoincrement=False)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    queue: Mapped[str]
    tries: Mapped[int]
    due_at: Mapped[str | None]                   # null while the attempt runs
    __table_args__ = (Index("cleanups_due", "due_at", **where("due_at IS NOT NULL")),)


class Event(Base):
    """What happened, written in the transaction of the change; the outbox of the callbacks."""

    __tablename__ = "events"
    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int]
    type: Mapped[str]                            # job.started, video.ready, …
    subject: Mapped[str]                         # path of what it tells about
    callback_url: Mapped[str | None]             # the job's, which a purge may empty before the callback is on its way
    version: Mapped[int]
    attempt: Mapped[int]
    created_at: Mapped[str]
    __table_args__ = (Index("events_job", "job_id"), {"sqlite_autoincrement": True})


class LogLine(Base):
    """A line that a handler wrote."""

    __tablename__ = "logs"
    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int]
    attempt: Mapped[int]
    created_at: Mapped[str]
    line: Mapped[str]
    __table_args__ = (Index("logs_job", "job_id", "id"), {"sqlite_autoincrement": True})


class IdempotencyKey(Base):
    """The claim of a key, made in the transaction that inserts its job."""

    __tablename__ = "idempotency"
    owner: Mapped[str] = mapped_column(primary_key=True)
    method: Mapped[str] = mapped_column(primary_key=True)
    path: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str]
    job_id: Mapped[int]
    created_at: Mapped[str]
    __table_args__ = (Index("idempotency_job", "job_id"),)


class Resource(Base):
    """The business object that a job makes; it outlives the job."""

    __tablename__ = "resources"
    id: Mapped[int] = mapped_column(primary_key=True)
    collection: Mapped[str]
    owner: Mapped[str]
    status: Mapped[str]                          # processing, ready, failed, cancelled
    job_id: Mapped[int | None]
    fields: Mapped[str]                          # JSON object: the type's own members
    retention: Mapped[int]
    created_at: Mapped[str]
    updated_at: Mapped[str]
    expires_at: Mapped[str | None]
    __table_args__ = (
        Index("resources_collection", "collection", "id"),
        Index("resources_expiring", "expires_at", **where("expires_at IS NOT NULL")),
        {"sqlite_autoincrement": True},
    )


class Artifact(Base):
    """A file, or a folder served as one, that a job left or a client uploaded. The row comes after the bytes."""

    __tablename__ = "artifacts"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str]
    kind: Mapped[str]                            # file, folder, upload
    job_id: Mapped[int | None]
    attempt: Mapped[int | None]
    resource_id: Mapped[int | None]
    name: Mapped[str]
    media_type: Mapped[str]
    size: Mapped[int]
    sha256: Mapped[str | None]
    key: Mapped[str]                             # where the store keeps it
    state: Mapped[str]                           # whole, doomed (to be deleted)
    link: Mapped[str | None]                     # signed once, when it appeared
    link_expires_at: Mapped[str | None]
    created_at: Mapped[str]
    expires_at: Mapped[str | None]               # of an upload; null while a job uses it
    unused_until: Mapped[str | None]             # of an upload: when it expires if no job uses it
    __table_args__ = (
        Index("artifacts_key", "key", unique=True),
        Index("artifacts_job", "job_id"),
        Index("artifacts_resource", "resource_id"),
        Index("artifacts_expiring", "expires_at", **where("expires_at IS NOT NULL AND state = 'whole'")),
        Index("artifacts_doomed", "id", **where("state = 'doomed'")),
        {"sqlite_autoincrement": True},
    )


class ArtifactUse(Base):
    """A job was accepted with this artifact as an input: it may read it, and an upload stays while a use is left."""

    __tablename__ = "artifact_uses"
    artifact_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    job_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    __table_args__ = (Index("artifact_uses_job", "job_id"),)


class Tally(Base):
    """How many jobs stand where; kept in the transaction of each change, so that nothing ever counts."""

    __tablename__ = "tallies"
    queue: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str] = mapped_column(primary_key=True)
    priority: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    owner: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int]
    __table_args__ = (Index("tallies_type", "type", "status"),)


class Served(Base):
    """When an owner's job was last started from a queue, so that the others come first next time."""

    __tablename__ = "served"
    queue: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int]


class Meta(Base):
    """Single numbers: the version, the feed's horizon, cursors."""

    __tablename__ = "meta"
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[int]


def sqlalchemy_url(settings: Settings) -> str:
    """The URL of the database in force."""
    return settings.database_url or f"sqlite:///{settings.data_dir / 'accepted.db'}"


def create(settings: Settings) -> None:
    """Make the tables and indexes that are missing."""
    engine = create_engine(sqlalchemy_url(settings), poolclass=NullPool)
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(CreateSequence(Sequence("job_version"), if_not_exists=True))
        Base.metadata.create_all(connection)
    engine.dispose()


def prepare(db: Database, settings: Settings) -> None:
    """Make what is missing of the schema, and let the version jump ahead of everything handed out before."""
    create(settings)
    db.write(schema.jump)
