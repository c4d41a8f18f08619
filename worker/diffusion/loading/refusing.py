"""Refuse files of which the libraries raise whatever there is, or only warn."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from diffusers.utils import logging as diffusers_logging
from transformers.utils import logging as transformers_logging

from core.errors import BadWeights
from worker.diffusion.runner import breaks_device, is_out_of_memory
from worker.diffusion.stock import first_line


@contextmanager
def refusing(named: str) -> Iterator[None]:
    """Have whatever the libraries raise of a file be ours; for `with`.

    Raises: BadWeights; as it is what the device has no memory for, or breaks at.
    """
    try:
        yield
    except Exception as error:  # of files that are broken the libraries raise all there is
        if is_out_of_memory(error) or breaks_device(error):
            raise
        raise BadWeights(f"{named}: {first_line(error)}") from error


def refuse_gaps(named: str, info: Mapping[str, Any]) -> None:
    """Both libraries only warn of tensors that are absent, and draw them at random."""
    for what in ("missing_keys", "mismatched_keys", "error_msgs"):
        if found := sorted(str(key) for key in info.get(what) or ()):
            raise BadWeights(f"{named}: {what.replace('_', ' ')}: {', '.join(found[:3])}")


def quieten() -> None:
    """Have both libraries log and draw nothing that is no error."""
    diffusers_logging.set_verbosity_error()
    transformers_logging.set_verbosity_error()
    diffusers_logging.disable_progress_bar()
    transformers_logging.disable_progress_bar()
