"""Signatures, so that a receiver knows who sent a callback: two schemes side by side, from the same secrets.

`X-Webhook-Signature` is in the style of Stripe: hex HMAC-SHA256 of `{t}.{body}`, keyed with the secret as it is
written, `whsec_` included. `webhook-signature` follows Standard Webhooks 1.0: base64 HMAC-SHA256 of `{id}.{t}.{body}`,
keyed with what the part after `whsec_` decodes to. Each header bears one signature for every active secret.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

PREFIX = "whsec_"


def new_secret() -> str:
    """`whsec_` and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def sign(active: Sequence[str], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers that sign `body`; `timestamp` in Unix seconds is that of this attempt."""
    stripe = [_hmac(secret.encode(), f"{timestamp}.", body).hex() for secret in active]
    standard = [base64.b64encode(_hmac(_key(secret), f"{message_id}.{timestamp}.", body)).decode() for secret in active]
    return {
        "X-Webhook-Signature": ",".join([f"t={timestamp}", *(f"v1={signature}" for signature in stripe)]),
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in standard),
    }


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(PREFIX))


def _hmac(key: bytes, prefix: str, body: bytes) -> bytes:
    return hmac.new(key, prefix.encode() + body, hashlib.sha256).digest()
