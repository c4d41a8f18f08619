"""Routes of `/v1/embeddings`: upload, list, read and delete a tenant's learned embeddings."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from api.intake.schemas import MAX_NAME
from api.intake.weights import Spool
from api.routes.jobs import as_json
from api.services.kept import Content, Deletion, KeptFiles, PageCursor, PageSize
from api.services.requests import FILE_TYPE, caller_of
from api.views.openapi import EMBEDDING, KEPT_NOT_FOUND, WEIGHTS_PROBLEMS
from core.cells.ids import new_id
from core.uploads.embedding import KeptEmbedding, embedding_key
from core.uploads.upload import UploadKind

Model = Annotated[
    str | None,
    Query(max_length=MAX_NAME, description="The model it is for; else all that it fits."),
]
Token = Annotated[
    str | None,
    Query(
        max_length=64,
        description="The word that stands for it in prompts, such as `<cat>`, in any case; needed "
        "where the file does not name its own. None that a tokenizer has already.",
    ),
]

KEPT = KeptFiles(kind=UploadKind.EMBEDDING, records=lambda services: services.embeddings.records)

router = APIRouter(tags=["embeddings"])


class EmbeddingView(BaseModel):
    """A learned embedding that is kept."""

    id: str
    object: str = "embedding"
    models: list[str]  #: that it fits
    token: str  #: the word that stands for it in a prompt
    vectors: int  #: tokens that the word is read as
    bytes: int
    sha256: str
    created_at: float


class EmbeddingPage(BaseModel):
    """One page of what is kept, newest first; pass `cursor` to read on."""

    object: str = "list"
    data: list[EmbeddingView]
    cursor: str | None


class EmbeddingGone(Deletion):
    """What was deleted."""

    object: str = "embedding"


@router.post(
    "/v1/embeddings",
    status_code=201,
    response_model=EmbeddingView,
    responses=WEIGHTS_PROBLEMS,
    openapi_extra=EMBEDDING,
    summary="Keep a learned embedding (textual inversion)",
)
async def keep(request: Request, model: Model = None, token: Token = None) -> Response:
    """Check an embedding against the models served and keep it until it is deleted."""
    services, tenant = caller_of(request)

    async def describe(spool: Spool) -> tuple[KeptEmbedding, list[Content]]:
        taken = await services.embeddings.take(spool, request.stream(), model, token)
        models, word, num_vectors = taken
        embedding_id = new_id(services.settings.cell)
        embedding = KeptEmbedding(
            id=embedding_id,
            tenant=tenant,
            key=embedding_key(tenant, embedding_id),
            models=models,
            token=word,
            num_vectors=num_vectors,
            size_bytes=spool.size_bytes,
            sha256=spool.sha256,
        )
        return embedding, [Content(key=embedding.key, body=spool, content_type=FILE_TYPE)]

    kept = await KEPT.keep(request, describe)
    response = as_json(_view(kept), 201)
    response.headers["Location"] = f"{services.urls.public_url}/v1/embeddings/{kept.id}"
    return response


@router.get("/v1/embeddings", response_model=EmbeddingPage, summary="List embeddings, newest first")
async def list_embeddings(
    request: Request,
    limit: PageSize = 20,
    cursor: PageCursor = None,
) -> Response:
    """List what the tenant keeps, newest first."""
    page = await KEPT.list(request, limit, cursor)
    return as_json(EmbeddingPage(data=[_view(each) for each in page.uploads], cursor=page.cursor))


@router.get(
    "/v1/embeddings/{embedding_id}",
    response_model=EmbeddingView,
    responses=KEPT_NOT_FOUND,
    summary="Read one embedding",
)
async def read(request: Request, embedding_id: str) -> Response:
    """Read what is kept under one id."""
    return as_json(_view(await KEPT.get(request, embedding_id)))


@router.delete(
    "/v1/embeddings/{embedding_id}",
    response_model=EmbeddingGone,
    responses=KEPT_NOT_FOUND,
    summary="Delete an embedding",
)
async def remove(request: Request, embedding_id: str) -> Response:
    """Delete one: no new job may name it. Jobs that were accepted still find its file.

    Upkeep deletes the file once they have had the time to end.
    """
    await KEPT.remove(request, embedding_id)
    return as_json(EmbeddingGone(id=embedding_id))


def _view(embedding: KeptEmbedding) -> EmbeddingView:
    return EmbeddingView(
        id=embedding.id,
        models=list(embedding.models),
        token=embedding.token,
        vectors=embedding.num_vectors,
        bytes=embedding.size_bytes,
        sha256=embedding.sha256,
        created_at=embedding.created_at,
    )
