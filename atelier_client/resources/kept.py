"""What a tenant keeps under ids: pictures, LoRAs, learned embeddings, ControlNets."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar
from urllib.parse import quote

from atelier_client.exchange.endpoints import Resource, RunnerT, endpoint, source
from atelier_client.exchange.flows import all_of, ask
from atelier_client.exchange.steps import Call, Flow, Param, Source
from atelier_client.pictures import UNKNOWN_TYPE, type_of
from atelier_client.types.kept import ControlNet, Deleted, Embedding, IpAdapter, Lora, Page, Upload

K = TypeVar("K")

#: Seconds that the service may take to check gigabytes of weights.
WEIGHTS_S = 600.0


class KeptThings(Resource[RunnerT], Generic[RunnerT, K]):
    """Things of one kind: read, list and delete them."""

    path: ClassVar[str]
    kind: ClassVar[Any]

    @endpoint
    def get(self, kept_id: str) -> Flow[K]:
        """Read what is kept under one id."""
        return ask(Call(method="GET", path=self._one(kept_id), may_repeat=True), self.kind)

    @endpoint
    def list(self, *, limit: int = 20, cursor: str | None = None) -> Flow[Page[K]]:
        """Read one page of what is kept, newest first."""
        return self._page(limit, cursor)

    @source
    def all(self) -> Source[K]:
        """Give all that is kept, newest first, page by page."""
        return all_of(partial(self._page, 100))

    @endpoint
    def delete(self, kept_id: str) -> Flow[Deleted]:
        """Delete one; jobs that were accepted still have it."""
        return ask(Call(method="DELETE", path=self._one(kept_id)), Deleted)

    def _page(self, limit: int, cursor: str | None) -> Flow[Page[K]]:
        params = given(limit=limit, cursor=cursor)
        call = Call(method="GET", path=self.path, params=params, may_repeat=True)
        return ask(call, Page[self.kind])  # type: ignore[name-defined]

    def _one(self, kept_id: str) -> str:
        return f"{self.path}/{quote(kept_id, safe='')}"

    def _add(
        self, content: bytes | Path, media_type: str, params: Mapping[str, Param] | None = None
    ) -> Flow[K]:
        call = Call(
            method="POST",
            path=self.path,
            content=content,
            params=params or {},
            headers={"Content-Type": media_type},
            timeout_s=WEIGHTS_S,
        )
        return ask(call, self.kind)


class Pictures(KeptThings[RunnerT, Upload]):
    """Pictures that jobs may name by id."""

    kind = Upload

    @endpoint
    def add(self, picture: bytes | Path) -> Flow[Upload]:
        """Keep a picture: PNG, JPEG or WebP."""
        media_type = type_of(picture) if isinstance(picture, Path) else UNKNOWN_TYPE
        return self._add(picture, media_type if media_type.startswith("image/") else UNKNOWN_TYPE)


class Files(Pictures[RunnerT]):
    """Masks, and pictures to start from or keep to: `/v1/files`."""

    path = "/v1/files"


class Templates(Pictures[RunnerT]):
    """Pictures that are edited again and again: `/v1/templates`."""

    path = "/v1/templates"


class Loras(KeptThings[RunnerT, Lora]):
    """LoRAs: `/v1/loras`."""

    path = "/v1/loras"
    kind = Lora

    @endpoint
    def add(
        self, weights: bytes | Path, *, model: str | None = None, bound: int | None = None
    ) -> Flow[Lora]:
        """Keep a LoRA, a safetensors file, for one model or for all that it fits."""
        return self._add(weights, UNKNOWN_TYPE, given(model=model, bound=bound))


class Embeddings(KeptThings[RunnerT, Embedding]):
    """Learned embeddings (textual inversion): `/v1/embeddings`."""

    path = "/v1/embeddings"
    kind = Embedding

    @endpoint
    def add(
        self, weights: bytes | Path, *, token: str | None = None, model: str | None = None
    ) -> Flow[Embedding]:
        """Keep an embedding, a safetensors file; `token` is its word, else the one it names."""
        return self._add(weights, UNKNOWN_TYPE, given(model=model, token=token))


class ControlNets(KeptThings[RunnerT, ControlNet]):
    """ControlNets: `/v1/controlnets`; lists begin with those of the service."""

    path = "/v1/controlnets"
    kind = ControlNet

    @endpoint
    def add(
        self,
        weights: bytes | Path,
        *,
        model: str | None = None,
        condition: str | None = None,
        order: str | None = None,
        pooled: bool = False,
    ) -> Flow[ControlNet]:
        """Keep a ControlNet, a safetensors file; `condition` says what its pictures show."""
        wanted = given(model=model, condition=condition, order=order, pooled=pooled or None)
        return self._add(weights, UNKNOWN_TYPE, wanted)


class IpAdapters(Resource[RunnerT]):
    """IP-Adapters of the service: `/v1/ip-adapters`."""

    @endpoint
    def list(self) -> Flow[Page[IpAdapter]]:
        """Read which there are."""
        return ask(Call(method="GET", path="/v1/ip-adapters", may_repeat=True), Page[IpAdapter])


def given(**wanted: Param | None) -> dict[str, Param]:
    """Leave out the parameters that are None."""
    return {name: value for name, value in wanted.items() if value is not None}
