"""Let each tenant have few requests with pictures in hand at a time: each holds up to 200 MB."""

import asyncio
from collections import defaultdict
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

#: Requests with pictures of one tenant that are read and stored; others wait for them.
MAX_OF_TENANT: Final = 2


class TenantTurns:
    """Whose turn it is, tenant by tenant, in the order of asking."""

    def __init__(self) -> None:
        self._free = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(MAX_OF_TENANT))

    def of(
        self, tenant: str, *, has_pictures: bool = True
    ) -> AbstractAsyncContextManager[object | None]:
        """Wait for a turn of this tenant's; what brings no pictures needs none."""
        return self._free[tenant] if has_pictures else nullcontext()
