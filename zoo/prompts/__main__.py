"""Write a prompt set, or a drifting stream of prompts.

`python -m zoo.prompts --help`
"""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from zoo.prompts import Drift, Prompt, Split, prompt_set, stream


def main(
    out: Annotated[Path, typer.Argument(help="The JSONL file to write.")],
    split: Annotated[Split, typer.Option(help="Which set.")] = Split.TEST,
    per_level: Annotated[int | None, typer.Option(help="Fewer: the first of each level.")] = None,
    length: Annotated[
        int | None, typer.Option(help="A drifting stream of so many instead.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the stream.")] = 0,
    period: Annotated[int, typer.Option(help="Prompts from easy to hard and back.")] = 2000,
    jump_every: Annotated[int | None, typer.Option(help="Prompts between jumps.")] = None,
) -> None:
    """Write a set, or a stream whose difficulty drifts, one prompt a line.

    Example: python -m zoo.prompts prompts.jsonl --length 5000 --jump-every 1000
    """
    chosen: Iterator[Prompt] = prompt_set(split, per_level)
    if length is not None:
        chosen = islice(stream(seed, Drift(period=period, jump_every=jump_every), split), length)
    with out.open("w") as file:
        for prompt in chosen:
            file.write(json.dumps(prompt.as_fields()) + "\n")


if __name__ == "__main__":
    typer.run(main)
