import time

from storage.tenants.audit import AuditEntry
from tests.contract.house import House


def an_entry(event: str, **facts: object) -> AuditEntry:
    return AuditEntry(event=event, by="k1", by_tenant="ops", address="::1", facts=facts)


async def test_what_was_done_last_is_told_first(house: House) -> None:
    assert list(await house.audit.last(5)) == []
    await house.audit.add(an_entry("key_added", scopes=["read"], expires_at=None))
    await house.audit.add(an_entry("tenant_changed", changes={"open_jobs": 2}))
    last, first = await house.audit.last(5)
    assert (last.event, last.facts) == ("tenant_changed", {"changes": {"open_jobs": 2}})
    assert first.facts == {"scopes": ["read"], "expires_at": None}
    assert (first.by, first.by_tenant, first.address) == ("k1", "ops", "::1")
    assert abs(first.at - time.time()) < 60.0
    assert [each.event for each in await house.audit.last(1)] == ["tenant_changed"]
