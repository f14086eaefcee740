"""The tables about those who use the server: their keys, how they sign in, and what they did."""

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from jobs.core.base import Base


class Key(Base):
    """A key; only its hash is stored."""

    __tablename__ = "keys"
    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str] = mapped_column(unique=True)
    hint: Mapped[str]                            # its first characters, to tell keys apart
    owner: Mapped[str]
    role: Mapped[str]
    name: Mapped[str]
    sync_wait: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[str]
    expires_at: Mapped[str | None]
    revoked_at: Mapped[str | None]
    last_used_at: Mapped[str | None]
    __table_args__ = ({"sqlite_autoincrement": True},)


class SignInLink(Base):
    """A link that signs in to the dashboard once."""

    __tablename__ = "sign_in_links"
    hash: Mapped[str] = mapped_column(primary_key=True)
    key_id: Mapped[int] = mapped_column(ForeignKey("keys.id"))
    expires_at: Mapped[str]


class Session(Base):
    """A browser that has signed in to the dashboard. Its cookie names the row, and is worth nothing without it."""

    __tablename__ = "sessions"
    hash: Mapped[str] = mapped_column(primary_key=True)
    key_id: Mapped[int] = mapped_column(ForeignKey("keys.id"))
    expires_at: Mapped[str]
    __table_args__ = (Index("sessions_key", "key_id"),)


class AuditLine(Base):
    """What somebody did; see `jobs.core.audit`."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[str]
    actor: Mapped[str]
    door: Mapped[str]
    key_id: Mapped[int | None]
    request_id: Mapped[str | None]
    act: Mapped[str]
    subject: Mapped[str]                         # path of what it was done to
    owner: Mapped[str | None]                    # whose that is
    detail: Mapped[str]                          # JSON
    __table_args__ = (Index("audit_at", "at"), Index("audit_act", "act", "id"), Index("audit_actor", "actor", "id"),
                      Index("audit_subject", "subject", "id"), Index("audit_owner", "owner", "id"),
                      {"sqlite_autoincrement": True})
