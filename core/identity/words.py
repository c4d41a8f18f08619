"""Rows of what a request says beside its prompt: other prompts, layers skipped, SDXL's sizes. Pure.

What they change may be in the latents of others, who have not said it: none are borrowed or lent.
"""

from collections.abc import Hashable, Mapping
from functools import partial

from core.errors import FieldError
from core.identity.trait import BY_PROMPT, Key, Read, Trait, Use, whole
from core.job import JobRequest
from core.model import Model
from core.request.prompt_syntax import PromptSyntax


def _is_set(name: str, request: JobRequest) -> bool:
    return getattr(request, name) is not None


def _refuse(name: str, needs: str | None, model: Model, request: JobRequest) -> FieldError | None:
    """Refuse what a model does not read, and what stock reads beside something else alone."""
    if getattr(request, name) is None:
        return None
    if name not in model.family_facts.words:
        return FieldError(name, f"is not read by {model.name}: leave it out")
    if needs is not None and getattr(request, needs) is None:
        return FieldError(name, f"is read beside {needs} alone: give both, or neither")
    return None


def _refuse_syntax(model: Model, request: JobRequest) -> FieldError | None:
    syntax = request.prompt_syntax
    if syntax is PromptSyntax.PLAIN or "prompt_syntax" in model.family_facts.words:
        return None
    return FieldError("prompt_syntax", f"must be 'plain' for {model.name}, which weighs no words")


def _ids(request: JobRequest, _: bool) -> Hashable:
    return tuple(each.id for each in request.embeddings)


def _refuse_embeddings(model: Model, request: JobRequest) -> FieldError | None:
    for at, each in enumerate(request.embeddings):
        if model.name not in each.models:
            fault = f"fits {', '.join(each.models)}, and the request leaves {model.name}"
            return FieldError(f"embeddings.{at}.id", fault)
    return None


def _row(
    name: str, why: str, keys: Mapping[Key, tuple[str, Read]], needs: str | None = None
) -> Trait:
    return Trait(
        why=why,
        bars=BY_PROMPT,
        is_set=partial(_is_set, name),
        keys=keys,
        refuses=partial(_refuse, name, needs),
    )


def _prompt(name: str) -> Trait:
    return _row(name, "another text encoder reads it", whole(name, Key.PROMPT))


def _negative(name: str) -> Trait:
    def read(request: JobRequest, is_guided: bool) -> Hashable:
        return getattr(request, name) if is_guided else None

    keys = whole(name, Key.PROMPT) | {Key.RECORDING: (name, read)}
    why = "another text encoder reads it; a template is told it where it is weighed"
    return _row(name, why, keys, needs=name.rpartition("_")[0])


def _size(name: str, needs: str | None = None) -> Trait:
    why = "the model is told it at every step, of a template too"
    return _row(name, why, whole(name, Key.RECORDING), needs=needs)


#: Field of `JobRequest` -> what it decides.
WORDS: Mapping[str, Trait] = {
    "prompt_2": _prompt("prompt_2"),
    "prompt_3": _prompt("prompt_3"),
    "negative_prompt_2": _negative("negative_prompt_2"),
    "negative_prompt_3": _negative("negative_prompt_3"),
    "prompt_syntax": Trait(
        why="weights change what a prompt means; text of several chunks is no template's",
        bars=BY_PROMPT | {Use.PACE, Use.REUSE},
        is_set=lambda request: request.prompt_syntax is not PromptSyntax.PLAIN,
        keys=whole("prompt_syntax", Key.PROMPT),
        refuses=_refuse_syntax,
    ),
    "clip_skip": _row(
        "clip_skip",
        "an earlier layer of the text encoders says what the prompt means; of a template's none",
        whole("clip_skip", Key.PROMPT),
    ),
    "original_size": _size("original_size"),
    "crop": _size("crop"),
    "target_size": _size("target_size"),
    # Stock reads negative sizes only where both are given, and their crop beside them.
    "negative_original_size": _size("negative_original_size", needs="negative_target_size"),
    "negative_crop": _size("negative_crop", needs="negative_original_size"),
    "negative_target_size": _size("negative_target_size", needs="negative_original_size"),
    "embeddings": Trait(
        why="a word means what its tenant keeps by it, in a negative prompt too",
        bars=BY_PROMPT,
        is_set=lambda request: bool(request.embeddings),
        keys={Key.PROMPT: ("embeddings", _ids), Key.RECORDING: ("embeddings", _ids)},
        refuses=_refuse_embeddings,
    ),
}
