"""Read prompts: by stock's method, or word by word where they have weights or learned words."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch

from catalog.lora.names import TEXT_ENCODERS
from catalog.prompts.syntax import parse, plain
from core.job import JobRequest
from core.request.prompt_syntax import PromptSyntax
from worker.diffusion.runner import AdapterLoad
from worker.diffusion.stock import (
    Module,
    Pipe,
)
from worker.lora.mix import PLAIN
from worker.pipeline.overlays import Overlays
from worker.pipeline.prompt_cache import (
    Encoded,
    EncodedPrompts,
    key_of_negative,
    key_of_prompt,
)
from worker.pipeline.sample import Conditioning
from worker.text.learned import LearnedWords, learn
from worker.text.offload import encode_apart, offload
from worker.text.weighted import TextEncoder, read_both

#: As what stock takes a negative prompt that is encoded.
_NEGATIVES = ("negative_prompt_embeds", "negative_pooled_prompt_embeds")


class PromptEncoder:
    """Encodes prompts with the text encoders of a pipeline. What was just read is kept."""

    pipe: Pipe
    unet: Module
    device: torch.device
    overlays: Overlays
    #: Fields of a request that the stock pipeline's `encode_prompt` is given beside the prompt.
    encoded_fields: tuple[str, ...] = ()
    encoding_parts: tuple[str, ...] = ("text",)  #: of `Encoding`, that it gives of each prompt

    def __init__(self) -> None:
        """Have read nothing."""
        self.prompts = EncodedPrompts()
        self.learned = LearnedWords()
        self._is_offloaded = False  #: whether text encoders stay on the host

    def is_guided(self, request: JobRequest) -> bool:
        """Tell whether the prompt is weighed against a negative one, in a row of its own."""
        return request.guidance > 1 and self._guidance_width is None

    def condition(self, request: JobRequest, is_guided: bool) -> Conditioning:
        """Encode the prompt and whatever else goes into every step."""
        raise NotImplementedError

    def condition_template(
        self, request: JobRequest, conditioning: Conditioning, is_guided: bool
    ) -> Conditioning:
        """Add a row for the template, which is told the negative prompt or nothing at all."""
        silent = replace(
            request, prompt="", prompt_2=None, prompt_3=None, negative_prompt=None, clip_skip=None
        )
        told = conditioning if is_guided else self.condition(silent, False)
        if request.edit is not None and request.edit.only_records:
            return told.first_rows()
        return conditioning.with_row(told)

    def encode(self, request: JobRequest, is_guided: bool) -> Encoded:
        """Encode a prompt, unless it was just encoded."""
        adapters = self.overlays.adapters
        key = key_of_prompt(request, is_guided, adapters.reader)
        if (kept := self.prompts.find(key)) is not None:
            return kept
        with adapters.encoders:  # another thread may be at it: this very prompt, or tokenizing
            encoded = self.prompts.find(key) or self._encode_there(request, is_guided)
        self.prompts.keep(key, encoded)
        return encoded

    def encoding(self, request: JobRequest) -> Callable[[], object] | None:
        """Give what encodes a prompt, for another thread; None: it is kept, or read with LoRAs.

        With what loads its IP-Adapter, which takes longer than any prompt.
        """
        encodes, loads = self._encoding(request), self.overlays.loads(request)
        if loads is None:
            return encodes
        return AdapterLoad(lambda: (loads(), encodes and encodes()))

    def _encoding(self, request: JobRequest) -> Callable[[], object] | None:
        is_guided = self.is_guided(request)
        if request.loras or request.embeddings:  # which an image brings when it is opened
            return None
        if self.prompts.find(key_of_prompt(request, is_guided, PLAIN)):
            return None
        return partial(self._encode_beside, request, is_guided)

    def offload(self) -> None:
        """Have text encoders that are on the host read on the device, layer by layer."""
        parts = (getattr(self.pipe, name, None) for name in TEXT_ENCODERS)
        offload([part for part in parts if part is not None], self.device)
        self._is_offloaded = True

    def _encode_there(self, request: JobRequest, is_guided: bool) -> Encoded:
        encode = partial(self.encode_prompt, request, is_guided)
        return encode_apart(self.device, encode) if self._is_offloaded else encode()

    @torch.inference_mode()
    def _encode_beside(self, request: JobRequest, is_guided: bool) -> None:
        adapters = self.overlays.adapters
        with adapters.encoders, adapters.reading(PLAIN):
            self.encode(request, is_guided)

    def encode_prompt(self, request: JobRequest, is_guided: bool) -> Encoded:
        """Encode a prompt by stock's method, with the negative one if it is kept, or by chunks."""
        if self.reads_itself(request):
            return self._read_words(request, is_guided)
        key = key_of_negative(request, self.overlays.adapters.reader)
        negatives = (self.prompts.find(key) or ()) if is_guided else ()
        encoded: Encoded = self.pipe.encode_prompt(
            prompt=request.prompt,
            device=self.device,
            num_images_per_prompt=1,
            do_classifier_free_guidance=is_guided,
            negative_prompt=request.negative_prompt,
            **{name: getattr(request, name) for name in self.encoded_fields},
            **dict(zip(_NEGATIVES, negatives, strict=False)),
        )
        if is_guided and not negatives:
            self.prompts.keep(key, encoded[1::2])
        return encoded

    def text_encoders(self) -> Sequence[TextEncoder]:
        """List the text encoders of a family that reads weighted prompts."""
        raise NotImplementedError

    @staticmethod
    def reads_itself(request: JobRequest) -> bool:
        """Tell whether prompts have weights, or words that were learned: stock has no such thing.

        It has the latter, by words added for all who share its encoders.
        """
        return request.prompt_syntax is PromptSyntax.WEIGHTED or bool(request.embeddings)

    def _read_words(self, request: JobRequest, is_guided: bool) -> Encoded:
        prompts, negatives = _texts_of(request)
        if negatives is None and not self.pipe.config.get("force_zeros_for_empty_prompt", False):
            negatives = ("", "")
        encoders = self.text_encoders()
        if request.embeddings:
            encoders = [
                replace(each, vocabulary=learn(each.vocabulary.tokenizer, words))
                for at, each in enumerate(encoders)
                for words in [self.learned.of(request.embeddings, at)]
            ]
        parses = parse if request.prompt_syntax is PromptSyntax.WEIGHTED else plain
        told = negatives if is_guided else None
        both = read_both(encoders, prompts, told, request.clip_skip, parses)
        return tuple(getattr(each, part) for part in self.encoding_parts for each in both)

    @property
    def _guidance_width(self) -> int | None:
        """Channels of the guidance embedding, where the model takes one instead of two rows."""
        width: int | None = self.unet.config.get("time_cond_proj_dim")
        return width


def _texts_of(request: JobRequest) -> tuple[tuple[str, str], tuple[str, str] | None]:
    """Say what each text encoder is to read, and what it is to read against that."""
    negative = request.negative_prompt
    prompts = (request.prompt, request.prompt_2 or request.prompt)
    if negative is None:
        return prompts, None
    return prompts, (negative, request.negative_prompt_2 or negative)
