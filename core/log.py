"""Structured logs: event name and fields. Prompts, keys and signed URLs are never logged."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger

from core.errors import Unavailable
from core.text import escape


def configure(level: str, *, is_json: bool) -> None:
    """Send structlog and the standard library's loggers to stderr, one line an event."""
    renderers: list[structlog.typing.Processor] = (
        [structlog.processors.JSONRenderer()]  # escapes what is no printable ASCII
        if is_json
        else [_escape_fields, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(level.upper()),
        logger_factory=_to_stderr,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for chatty in ("httpx", "httpcore"):  # a line a request, with its whole URL
        logging.getLogger(chatty).setLevel(logging.WARNING)


def get_logger(name: str) -> FilteringBoundLogger:
    """Return the logger of one module."""
    return cast(FilteringBoundLogger, structlog.get_logger(logger_name=name))


@contextmanager
def log_errors(log: FilteringBoundLogger, event: str, **fields: object) -> Iterator[None]:
    """Log whatever a block raises and go on: a loop outlives each of its rounds.

    A service that is away is a warning with its reason; anything else comes with its traceback.
    """
    try:
        yield
    except Unavailable as error:
        log.warning(event, reason=str(error), **fields)
    except Exception:  # a bug in one round ends neither the loop nor its thread
        log.exception(event, **fields)


def _escape_fields(_: object, __: str, fields: EventDict) -> EventDict:
    """Let no field of an event steer the terminal, or look like another event."""
    return {
        escape(name): escape(value, keeps_lines=name == "exception")
        if isinstance(value, str)
        else value
        for name, value in fields.items()
    }


def _to_stderr(*_: object) -> structlog.PrintLogger:
    """Print one event to what stderr is now: who captured it before may have closed it since."""
    return structlog.PrintLogger(sys.stderr)
