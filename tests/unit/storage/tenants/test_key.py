import pytest

from core.errors import Conflict
from storage.tenants.key import KeyStatus, Scope, digest_of, draw, revoke, rotate

BOTH = (Scope.READ, Scope.SUBMIT)


def test_a_key_is_kept_as_its_digest_alone():
    key, kept = draw("acme", [Scope.SUBMIT, Scope.READ, Scope.READ], now=10.0)
    assert key.startswith("atelier_") and len(key) == 8 + 43
    assert kept.digest == digest_of(key) and key not in repr(kept)
    assert kept.scopes == BOTH and kept.expires_at is None


def test_a_key_works_until_its_time_is_over_or_it_is_revoked():
    _, kept = draw("acme", BOTH, now=10.0, expires_in_s=5.0)
    assert [kept.status(at) for at in (10.0, 14.9, 15.0)] == [
        KeyStatus.ACTIVE,
        KeyStatus.ACTIVE,
        KeyStatus.EXPIRED,
    ]
    ended = revoke(kept, now=12.0)
    assert ended.status(12.0) is KeyStatus.REVOKED
    assert revoke(ended, now=13.0) == ended


def test_the_old_key_works_for_the_overlap_beside_the_one_in_its_place():
    _, kept = draw("acme", BOTH, now=10.0, name="ci")
    key, new, old = rotate(kept, now=100.0, overlap_s=50.0)
    assert digest_of(key) == new.digest != old.digest
    assert (new.tenant, new.scopes, new.name, new.replaces) == ("acme", BOTH, "ci", old.id)
    assert (new.expires_at, old.expires_at) == (None, 150.0)


def test_a_key_that_is_rotated_lives_no_longer_and_its_heir_as_long_as_it_was_made_to():
    _, kept = draw("acme", BOTH, now=10.0, expires_in_s=100.0)
    _, new, old = rotate(kept, now=100.0, overlap_s=50.0)
    assert (old.expires_at, new.expires_at) == (110.0, 200.0)


def test_a_key_is_rotated_once_and_its_heir_after_it():
    _, kept = draw("acme", BOTH, now=10.0, expires_in_s=100.0)
    _, new, old = rotate(kept, now=20.0, overlap_s=5.0)
    with pytest.raises(Conflict, match=f"{old.id} was rotated before, the key {new.id} "):
        rotate(old, now=21.0, overlap_s=5.0)
    _, third, _ = rotate(new, now=21.0, overlap_s=5.0)
    assert (third.expires_at, third.replaces) == (121.0, new.id)


def test_a_key_that_does_not_work_is_not_rotated():
    _, kept = draw("acme", BOTH, now=10.0, expires_in_s=5.0)
    for key, at in ((revoke(kept, now=11.0), 12.0), (kept, 20.0)):
        with pytest.raises(Conflict, match=key.id):
            rotate(key, now=at, overlap_s=1.0)
