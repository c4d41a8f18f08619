"""A tenant's pictures wait for one another, and for nobody else's."""

import asyncio
from contextlib import AsyncExitStack

from api.intake.images import MAX_OF_TENANT, TenantTurns


async def test_a_tenant_has_few_turns_and_others_have_their_own():
    turns = TenantTurns()
    async with AsyncExitStack() as taken:
        for _ in range(MAX_OF_TENANT):
            await taken.enter_async_context(turns.of("ann"))
        waiting = asyncio.create_task(take(turns.of("ann")))
        await take(turns.of("ben"))
        assert not waiting.done()
    await waiting


async def take(turn):
    async with turn:
        pass
