"""Check that text encoders read all of a job's prompts, counting tokens. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from api.intake.schemas import PROMPTS
from api.intake.tokenizers import TokenCounter
from catalog.prompts.syntax import MAX_CHUNKS, Sections, num_chunks, parse
from core.errors import FieldError, PromptRefused
from core.family import T5
from core.job import JobRequest
from core.model import Model
from core.request.prompt_syntax import PromptSyntax


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptReader:
    """What the text encoders of models read of prompts."""

    tokens: TokenCounter  #: counts what a model's text encoders read
    max_chars: int  #: of a prompt; longer ones are refused whoever reads them

    def faults(self, model: Model, request: JobRequest) -> Iterator[FieldError]:
        """Say which prompts are longer than a model reads."""
        if request.prompt_syntax is PromptSyntax.WEIGHTED:
            yield from self._chunks(model, request)
            return
        for field in PROMPTS:
            text = getattr(request, field)
            if not text or len(text) > self.max_chars:
                continue
            t5 = model.family_facts.t5
            is_for_t5 = t5 is not None and field.endswith(t5.field)
            fault = None if is_for_t5 else self._too_long(model, request, field, text)
            if t5 is not None and (is_for_t5 or not getattr(request, _own(t5, field))):
                fault = fault or self._too_long_for(t5, model, text, is_own=is_for_t5)
            if fault is not None:
                yield FieldError(field, fault)

    def faults_of_layers(self, model: Model, skip: int) -> Iterator[FieldError]:
        """Say that a model has no more layers than a prompt is to be read without."""
        layers = self.tokens.layers(model.name)
        if layers is not None and skip >= layers:
            has = f"{model.name} reads prompts by {layers} layers"
            yield FieldError("clip_skip", f"must be from 0 to {layers - 1}: {has}")

    def _count(self, model: Model, request: JobRequest, text: str) -> int:
        """Count the tokens of a text: each learned word has as many as vectors."""
        learned = 0
        for each in request.embeddings:
            text, found = re.subn(re.escape(each.token), " ", text, flags=re.IGNORECASE)
            learned += found * each.num_vectors
        return learned + self.tokens.count(model.name, text)

    def _too_long(self, model: Model, request: JobRequest, field: str, text: str) -> str | None:
        """Say that CLIP does not read all of a prompt, and what to do."""
        limit, t5 = model.max_prompt_tokens, model.family_facts.t5
        if not request.embeddings and is_short(text, limit):
            return None
        if (tokens := self._count(model, request, text)) <= limit:
            return None
        cure = f"; give T5 all of it as {_own(t5, field)}, and less here" if t5 else ""
        if "prompt_syntax" in model.family_facts.words:
            cure = "; more with prompt_syntax 'weighted'"
        return f"has {tokens} tokens; {model.name} reads at most {limit}{cure}"

    def _too_long_for(self, t5: T5, model: Model, text: str, *, is_own: bool) -> str | None:
        """Say that T5 does not read all of a prompt, or that there is none for one of its own."""
        if not is_own and is_short(text, t5.tokens - 1):
            return None
        tokens = self.tokens.count_t5(model.name, text)
        if tokens is None and is_own:
            return f"is for T5, of which {model.name} has no tokenizer.json: leave it out"
        if tokens is None or tokens <= t5.tokens:
            return None
        return f"has {tokens} tokens; the T5 of {model.name} reads at most {t5.tokens}"

    def _chunks(self, model: Model, request: JobRequest) -> Iterator[FieldError]:
        limit = model.max_prompt_tokens
        for field in PROMPTS:
            text = getattr(request, field) or ""
            if len(text) > self.max_chars:
                continue
            sections = _parsed(text)
            if isinstance(sections, PromptRefused):
                yield FieldError(field, str(sections))
                continue
            counts = (sum(self._count(model, request, p.text) for p in each) for each in sections)
            if (chunks := num_chunks(counts, limit)) > MAX_CHUNKS:
                most = f"at most {MAX_CHUNKS} are read"
                yield FieldError(field, f"fills {chunks} chunks of {limit} tokens; {most}")


@lru_cache(maxsize=64)
def _parsed(text: str) -> Sections | PromptRefused:
    """Read a prompt once for all models; what is refused is refused for each."""
    try:
        return parse(text)
    except PromptRefused as error:
        return error


def is_short(text: str, limit: int) -> bool:
    """Tell without tokenizing: byte-pair encoding never makes more tokens than bytes."""
    return len(text) <= limit and text.isascii()


def _own(t5: T5, field: str) -> str:
    """Name what T5 reads in place of a prompt, or of a negative one."""
    return f"negative_{t5.field}" if field.startswith("negative_") else t5.field
