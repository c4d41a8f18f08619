"""How the prompts of a request are to be read. Pure."""

from enum import StrEnum


class PromptSyntax(StrEnum):
    """How a prompt is read."""

    PLAIN = "plain"  #: letter for letter, as stock pipelines read it
    WEIGHTED = "weighted"  #: with weights and breaks, and as long as it is: `catalog.prompts`
