"""A tenant's API key: what it may do, how long it works, how another takes its place. Pure.

The key itself is 256 random bits, shown once to who makes it. Kept is its SHA-256: nobody guesses
so many bits, however fast the hash.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import uuid4

from core.errors import Conflict

#: How every key begins, so that scanners of repositories and logs find one that has leaked.
PREFIX: Final = "atelier_"


class Scope(StrEnum):
    """What a key may do."""

    SUBMIT = "submit"  #: ask for images, keep files, change and delete what is the tenant's
    READ = "read"  #: read what is the tenant's, and what is served
    OPERATE = "operate"  #: fleet, plan, models and keys, of all tenants


class KeyStatus(StrEnum):
    """Whether a key works."""

    ACTIVE = "active"  #: it works
    EXPIRED = "expired"  #: its time is over
    REVOKED = "revoked"  #: somebody has ended it


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantKey:
    """What is kept of a key."""

    id: str  #: names it; no secret
    digest: str  #: SHA-256 of the key, hex
    tenant: str  #: whose requests those are that carry it
    scopes: tuple[Scope, ...]  #: sorted
    name: str = ""  #: for people
    created_at: float  #: epoch s
    expires_at: float | None = None  #: epoch s; None: never
    revoked_at: float | None = None  #: epoch s
    replaces: str | None = None  #: id of the key in whose place it is
    replaced_by: str | None = None  #: id of the key in its place; then its end is not its own

    def status(self, now: float) -> KeyStatus:
        """Tell whether it works."""
        if self.revoked_at is not None:
            return KeyStatus.REVOKED
        is_over = self.expires_at is not None and self.expires_at <= now
        return KeyStatus.EXPIRED if is_over else KeyStatus.ACTIVE


def digest_of(key: str) -> str:
    """Tell what a key is kept and looked up as, so that timing says nothing about it."""
    return sha256(key.encode()).hexdigest()


def draw(
    tenant: str,
    scopes: Collection[Scope],
    *,
    now: float,
    name: str = "",
    expires_in_s: float | None = None,
) -> tuple[str, TenantKey]:
    """Draw a key; return it and what is kept of it."""
    key = PREFIX + secrets.token_urlsafe(32)
    kept = TenantKey(
        id=uuid4().hex,
        digest=digest_of(key),
        tenant=tenant,
        scopes=tuple(sorted(set(scopes))),
        name=name,
        created_at=now,
        expires_at=None if expires_in_s is None else now + expires_in_s,
    )
    return key, kept


def rotate(old: TenantKey, *, now: float, overlap_s: float) -> tuple[str, TenantKey, TenantKey]:
    """Put a new key in the place of `old`, which works on for a while, never beyond its own end.

    The new one lasts as long as the old one was made to. Returns the new key, what is kept of it,
    and the old one with its end.

    Raises:
        Conflict: the old one does not work any more, or was rotated before.
    """
    if (status := old.status(now)) is not KeyStatus.ACTIVE:
        raise Conflict(f"the key {old.id} is {status}: make another with `POST /v1/keys`")
    if old.replaced_by is not None:
        heir = f"the key {old.replaced_by} is in its place"
        raise Conflict(f"the key {old.id} was rotated before, {heir}: rotate that one")
    lasts_s = None if old.expires_at is None else old.expires_at - old.created_at
    key, new = draw(old.tenant, old.scopes, now=now, name=old.name, expires_in_s=lasts_s)
    ends_at = now + overlap_s
    if old.expires_at is not None:
        ends_at = min(ends_at, old.expires_at)
    ending = replace(old, expires_at=ends_at, replaced_by=new.id)
    return key, replace(new, replaces=old.id), ending


def revoke(key: TenantKey, *, now: float) -> TenantKey:
    """End a key; one that was revoked before stays as it is."""
    return key if key.revoked_at is not None else replace(key, revoked_at=now)
