"""The tables of the callbacks. Import this module before the schema is prepared."""

from sqlalchemy import CheckConstraint, Index
from sqlalchemy.orm import Mapped, mapped_column

from jobs.core.base import Base, where


class Endpoint(Base):
    """A receiver that an owner registered for some types of events."""

    __tablename__ = "webhook_endpoints"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str]
    url: Mapped[str]
    events: Mapped[str]                          # JSON array of event types, or ["*"]
    description: Mapped[str]
    failing_since: Mapped[str | None]            # no success since then
    disabled_at: Mapped[str | None]
    disabled_reason: Mapped[str | None]
    created_at: Mapped[str]
    updated_at: Mapped[str]
    __table_args__ = (Index("webhook_endpoints_owner", "owner", "id"), {"sqlite_autoincrement": True})


class Secret(Base):
    """What a receiver verifies with: one of a registered endpoint, or of an owner and an origin of callback URLs."""

    __tablename__ = "callback_secrets"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str]
    receiver: Mapped[str]                        # endpoint:3, or an origin
    secret: Mapped[str]                          # whsec_…; signing needs it in the clear
    created_at: Mapped[str]
    expires_at: Mapped[str | None]               # set when a newer one has taken its place
    __table_args__ = (Index("callback_secrets_receiver", "owner", "receiver"), {"sqlite_autoincrement": True})


class Delivery(Base):
    """One event on its way to one receiver. While pending, `next_at` says when to try; a sender that tries moves it
    ahead by its lease, so that the delivery of a killed sender falls due again by itself."""

    __tablename__ = "deliveries"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str]
    job_id: Mapped[int | None]                   # null for a ping
    endpoint_id: Mapped[int | None]              # null for a job's callbackUrl
    receiver: Mapped[str]                        # whose secrets sign it, and what is limited together
    url: Mapped[str]
    message_id: Mapped[str]                      # evt_9
    type: Mapped[str]
    idempotency_key: Mapped[str]
    body: Mapped[str]                            # the JSON sent, byte for byte, each time
    traceparent: Mapped[str | None]
    state: Mapped[str]                           # pending, delivered, failed
    note: Mapped[str | None]                     # why it was given up
    attempts: Mapped[int] = mapped_column(default=0)
    step: Mapped[int] = mapped_column(default=0)  # place in the schedule; a redelivery starts again at 0
    next_at: Mapped[str | None]
    created_at: Mapped[str]
    updated_at: Mapped[str]
    __table_args__ = (
        CheckConstraint("state IN ('pending', 'delivered', 'failed')", name="delivery_state"),
        CheckConstraint("(next_at IS NOT NULL) = (state = 'pending')", name="next_iff_pending"),
        Index("deliveries_due", "next_at", "receiver", **where("state = 'pending'")),
        Index("deliveries_job", "job_id"),
        Index("deliveries_endpoint", "endpoint_id", "id"),
        Index("deliveries_failed", "owner", "id", **where("state = 'failed'")),
        {"sqlite_autoincrement": True},
    )


class DeliveryAttempt(Base):
    """What one try at a delivery brought."""

    __tablename__ = "delivery_attempts"
    delivery_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    started_at: Mapped[str]
    duration: Mapped[int]                        # milliseconds
    status: Mapped[int | None]                   # of the answer, if there was one
    error: Mapped[str | None]                    # dns, connect, tls, timeout, protocol, forbidden
    detail: Mapped[str | None]
    excerpt: Mapped[str | None]                  # the first KiB of the answer, for admins
