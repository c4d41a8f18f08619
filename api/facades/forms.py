"""Forms with files, as clients of other APIs send them (multipart/form-data)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from api.services.requests import media_type_of, refuse_other_sites
from core.errors import FieldError, InvalidRequest

FORM: Final = "multipart/form-data"
#: Files, fields and bytes of a field of one form.
MAX_FILES: Final = 17
MAX_FIELDS: Final = 64
MAX_FIELD_BYTES: Final = 2**20


@asynccontextmanager
async def read_form(request: Request) -> AsyncIterator[FormData]:
    """Read a form; its files are open until the block ends.

    Raises:
        HTTPException: 415, it is none.
        Forbidden: a page of another site sends it.
        InvalidRequest: it is malformed, or has more parts than any that is right.
    """
    if media_type_of(request) != FORM:
        raise HTTPException(415, f"send the body as {FORM}")
    refuse_other_sites(request)
    if _charset_of(request) not in ("", "utf-8"):
        raise InvalidRequest([FieldError("body", "must be sent in UTF-8: name no other charset")])
    form = request.form(max_files=MAX_FILES, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
    try:
        read = await form
    except HTTPException as error:  # how the framework says that it cannot be parsed
        raise InvalidRequest([FieldError("body", str(error.detail))]) from error
    try:
        yield read
    finally:
        await read.close()


def texts_of(form: FormData) -> dict[str, str]:
    """Return the fields of a form that are no files; of a name given twice, the last."""
    return {name: value for name, value in form.multi_items() if isinstance(value, str)}


def files_of(form: FormData, *names: str) -> list[UploadFile]:
    """Return the files under any of `names`, in order."""
    return [
        value
        for name, value in form.multi_items()
        if name in names and isinstance(value, UploadFile)
    ]


def _charset_of(request: Request) -> str:
    """Read which charset a form says it is in; the framework would decode by any of Python's."""
    charset = parse_options_header(request.headers["content-type"])[1].get(b"charset", b"")
    return charset.decode("latin-1").strip().lower()
