"""Keys that the store keeps: a key that nobody knows costs it nothing, however often it comes."""

from collections.abc import Callable, Iterable, Sequence

from api.services.tenants.followed import FollowedTable
from core.errors import NotFound, StoreUnavailable
from storage.tenants.key import TenantKey
from storage.tenants.table import VersionedTable


class StoredKeys(FollowedTable[TenantKey]):
    """The keys of the store, as last read."""

    def __init__(self, store: VersionedTable[TenantKey]) -> None:
        super().__init__(store, name="keys", by=lambda key: key.digest)

    @property
    def tenants(self) -> set[str]:
        """Name everybody who has, or had, a key."""
        return {each.tenant for each in self.rows.values()}

    def find(self, digest: str) -> TenantKey | None:
        """Look a key up, whether it works or not.

        Raises:
            StoreUnavailable: the keys were never read, so nobody knows.
        """
        if not self.is_known:
            raise StoreUnavailable("the keys have not been read yet")
        return self.rows.get(digest)

    async def list(self) -> Sequence[TenantKey]:
        """Read all keys, newest first."""
        return newest_first(await self.read())

    async def add(self, key: TenantKey) -> None:
        """Keep a new key. Raises: Conflict: others change keys all the time."""
        await self.write(lambda _: [key])

    async def change(
        self, key_id: str, do: Callable[[TenantKey], Sequence[TenantKey]]
    ) -> TenantKey:
        """Write what `do` makes of a key; return the key, the first of them.

        Raises:
            NotFound: there is none of this id.
            Conflict: others change keys all the time.
        """
        return (await self.write(lambda keys: do(_of_id(keys, key_id))))[0]


def newest_first(keys: Iterable[TenantKey]) -> tuple[TenantKey, ...]:
    """Sort keys as they are listed."""
    return tuple(sorted(keys, key=lambda each: (-each.created_at, each.id)))


def _of_id(keys: Sequence[TenantKey], key_id: str) -> TenantKey:
    found = next((each for each in keys if each.id == key_id), None)
    if found is None:
        raise NotFound(f"there is no key of the id {key_id!r}: `GET /v1/keys` lists them")
    return found
