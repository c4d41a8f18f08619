"""Structured logs: event name and fields. Prompts, keys and signed URLs are never logged.

Each line has its time, level and process; one about a job its id, and the tenant if this process
has seen the job's record.
"""

import json
import logging
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import NoReturn, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger

from core.errors import Unavailable
from core.text import escape

#: Jobs whose tenants are remembered.
MAX_OWNERS = 10_000

_owners: OrderedDict[str, str] = OrderedDict()


def note_owner(job_id: str, tenant: str) -> None:
    """Remember whose job it is, for the lines that name it. From any thread."""
    _owners[job_id] = tenant
    while len(_owners) > MAX_OWNERS:
        with suppress(KeyError):  # another thread has just done so
            _owners.popitem(last=False)


def begin_request() -> None:
    """Forget what `bind` put on the lines of an earlier request."""
    structlog.contextvars.clear_contextvars()


def bind(**fields: str) -> None:
    """Put fields on every line of the request that is answered here."""
    structlog.contextvars.bind_contextvars(**fields)


def configure(level: str, *, is_json: bool, process: str = "") -> None:
    """Send structlog and the standard library's loggers to stderr, one line an event.

    `process`: what this one is, such as `api`.
    """
    renderers: list[structlog.typing.Processor] = (
        [structlog.processors.JSONRenderer()]  # escapes what is no printable ASCII
        if is_json
        else [_escape_fields, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        partial(_name, process),
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
    if is_json:
        _log_what_nobody_caught()
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


def end(process: str, error: Exception) -> NoReturn:
    """End a process that cannot start; its last line says why."""
    if isinstance(structlog.get_config()["processors"][-1], structlog.processors.JSONRenderer):
        get_logger(__name__).critical("not_started", reason=str(error))
        sys.exit(1)
    sys.exit(f"{process}: {error}")


def say(process: str, text: str, *_: object) -> None:
    """Log from a signal handler, which may hold any lock: one line of JSON, written at once."""
    event = {"event": text, "level": "info", "process": process}
    event["timestamp"] = datetime.now(UTC).isoformat()
    os.write(2, json.dumps(event).encode() + b"\n")


def _name(process: str, _: object, __: str, fields: EventDict) -> EventDict:
    if process:
        fields["process"] = process
    tenant = _owners.get(fields["job"]) if isinstance(fields.get("job"), str) else None
    if tenant is not None:
        fields.setdefault("tenant", tenant)
    return fields


def _log_what_nobody_caught() -> None:
    """Have warnings and the errors that end a process or a thread be lines like others."""
    log = get_logger("uncaught")

    def in_main(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        if issubclass(kind, Exception):
            log.critical("process_ended", exc_info=(kind, error, at))

    def in_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and issubclass(args.exc_type, Exception):
            found = (args.exc_type, args.exc_value, args.exc_traceback)
            log.error("thread_ended", thread=getattr(args.thread, "name", ""), exc_info=found)

    sys.excepthook, threading.excepthook = in_main, in_thread
    logging.captureWarnings(True)


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
