"""Answer a list with what all cells have, in the form in which one cell answers it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from router.forwarding import WholeAnswer
from router.listing import ROWS, cursor_of, merge

#: Rows of a page whose length nobody says.
PAGE: Final = 20
#: Names the cells that a merged list is without.
MISSING_HEADER: Final = "Atelier-Cells-Missing"


def merged_answer(
    request: web.Request, answers: Mapping[str, WholeAnswer | None], public_url: str
) -> web.StreamResponse:
    """Merge what cells have answered; what one has refused is refused.

    Cells that did not answer are named in a header: what they have is not shown.
    """
    found = [answer for answer in answers.values() if answer is not None]
    for status, content, kind in found:
        if status != 200:
            return web.Response(status=status, body=content, headers={"Content-Type": kind})
    pages = [msgspec.json.decode(content) for _, content, _ in found]
    page = _merged(pages, request.query.get("limit", ""), public_url + request.path)
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    if missing := [name for name, answer in answers.items() if answer is None]:
        headers[MISSING_HEADER] = ",".join(missing)
    return web.Response(body=msgspec.json.encode(page), headers=headers)


def _merged(pages: Sequence[Mapping[str, Any]], limit: str, url: str) -> Mapping[str, Any]:
    rows = next(name for name in ROWS if name in pages[0])
    longest = max(len(page[rows]) for page in pages)
    most = int(limit) if limit.isdecimal() else max(PAGE, longest)
    merged = merge([(page[rows], cursor_of(page)) for page in pages], most)
    return {**pages[0], rows: merged.rows, **_next(pages[0], url, merged.cursor)}


def _next(page: Mapping[str, Any], url: str, cursor: str | None) -> dict[str, Any]:
    """Say how to read on, as pages of this kind do."""
    if "next" not in page:
        return {"cursor": cursor} if "cursor" in page else {}
    return {"next": f"{url}?cursor={cursor}" if cursor else None}
