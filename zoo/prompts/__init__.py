"""Versioned prompt sets; each prompt has the address of the scene that judges it."""

from zoo.prompts.sets import SIZES, VERSION, Address, Prompt, Split, digest, prompt_set, prompts_of
from zoo.prompts.stream import Drift, stream

__all__ = [
    "SIZES",
    "VERSION",
    "Address",
    "Drift",
    "Prompt",
    "Split",
    "digest",
    "prompt_set",
    "prompts_of",
    "stream",
]
