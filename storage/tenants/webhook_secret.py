"""What signs a tenant's webhooks: derived from the service's secret, rotated with an overlap. Pure.

Kept is a random salt, which says nothing without the secret of the settings: who reads the store
alone signs nothing. Who changes the secret of the settings changes every tenant's at once.
"""

import hashlib
import hmac
import secrets
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

#: Secrets of one tenant that sign at a time; the oldest end when there are more.
MOST: Final = 4
PREFIX: Final = "whsec_"
#: Stands for the secret of the settings itself, which signs for whoever has none of its own.
OF_SETTINGS: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSalt:
    """One secret of a tenant, without the secret."""

    salt: str  #: `OF_SETTINGS`, or random
    made_at: float  #: epoch s
    ends_at: float | None = None  #: epoch s; None: until it is rotated


def signing(salts: Sequence[WebhookSalt], now: float) -> tuple[WebhookSalt, ...]:
    """Tell what signs now, the newest first; without any the secret of the settings does."""
    active = [each for each in salts if each.ends_at is None or each.ends_at > now]
    active.sort(key=lambda each: -each.made_at)
    return tuple(active) or (WebhookSalt(salt=OF_SETTINGS, made_at=0.0),)


def first(now: float) -> tuple[WebhookSalt, ...]:
    """Draw a tenant's first secret; that of the settings signs beside it until it is rotated.

    Receivers may have been given that, and who only reads has not chosen when it ends.
    """
    return (_drawn(now), WebhookSalt(salt=OF_SETTINGS, made_at=0.0))


def rotate(salts: Sequence[WebhookSalt], now: float, overlap_s: float) -> tuple[WebhookSalt, ...]:
    """Draw a new secret; those before it sign on for a while, none longer than it would have."""
    ending = [
        replace(each, ends_at=min(each.ends_at or now + overlap_s, now + overlap_s))
        for each in signing(salts, now)
    ]
    kept = (each for each in ending if each.ends_at is not None and each.ends_at > now)
    return (_drawn(now), *kept)[:MOST]


def derive(master: str, tenant: str, salt: WebhookSalt) -> str:
    """Give the secret itself, as receivers are told it; empty if the settings have none."""
    if salt.salt == OF_SETTINGS or not master:
        return master
    said = f"webhook\n{tenant}\n{salt.salt}".encode()
    digest = hmac.new(master.encode(), said, hashlib.sha256).digest()
    return PREFIX + b64encode(digest).decode()


def _drawn(now: float) -> WebhookSalt:
    return WebhookSalt(salt=secrets.token_urlsafe(24), made_at=now)
