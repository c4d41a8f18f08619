"""Records of learned embeddings (textual inversion) as stored, and their use in a job. Pure."""

from dataclasses import dataclass

from core.uploads.upload import UploadKind

#: Where every tenant's embeddings lie, beside the images.
EMBEDDINGS = "embeddings"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEmbedding:
    """One learned embedding that stays until its owner deletes it."""

    id: str
    kind: UploadKind = UploadKind.EMBEDDING
    tenant: str
    key: str  #: of its file in the object store
    models: tuple[str, ...]  #: served when it came, whose text encoders it fits
    token: str  #: the word that stands for it in a prompt
    num_vectors: int  #: tokens that the word is read as
    size_bytes: int
    sha256: str  #: hex digest of its file
    created_at: float = 0.0  #: epoch s, set by the store

    def used(self) -> "AppliedEmbedding":
        """Say what a job and its worker need to know of it."""
        return AppliedEmbedding(
            id=self.id,
            key=self.key,
            models=self.models,
            token=self.token,
            num_vectors=self.num_vectors,
            sha256=self.sha256,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedEmbedding:
    """One learned embedding in a job."""

    id: str
    key: str  #: of its file in the object store
    models: tuple[str, ...]  #: that it fits
    token: str  #: the word that stands for it in a prompt
    num_vectors: int  #: tokens that the word is read as
    sha256: str  #: hex digest of its file

    def is_in(self, text: str) -> bool:
        """Tell whether a prompt has its word, which tokenizers find in any case."""
        return self.token.lower() in text.lower()


def embedding_key(tenant: str, embedding_id: str) -> str:
    """Name the object that holds the file of an embedding."""
    return f"{EMBEDDINGS}/{tenant}/{embedding_id}.safetensors"
