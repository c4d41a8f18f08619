"""Answer a list with what all cells have, in the form in which one cell answers it."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from router.forwarding import WholeAnswer
from router.listing import ROWS, Keeper, cursor_of, merge, shown_by

#: Rows of a page whose length nobody says.
PAGE: Final = 20
#: Names the cells that a merged list is without.
MISSING_HEADER: Final = "Atelier-Cells-Missing"


def merged_answer(
    request: web.Request,
    answers: Mapping[str, WholeAnswer | None],
    keeper: Keeper,
    public_url: str,
) -> web.StreamResponse:
    """Merge what cells have answered; what one has refused is refused.

    Cells that did not answer, or cannot now, are named in a header: what they have is not shown.
    Where none can, one says why.
    """
    heard = {name: answer for name, answer in answers.items() if answer is not None}
    able = {name: answer for name, answer in heard.items() if not _is_ill(answer[0])}
    for status, content, kind in (able or heard).values():
        if status != 200:
            return web.Response(status=status, body=content, headers={"Content-Type": kind})
    pages = {name: msgspec.json.decode(content) for name, (_, content, _) in able.items()}
    page = _merged(pages, keeper, request.query.get("limit", ""), public_url + request.path)
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    if missing := [name for name in answers if name not in able]:
        headers[MISSING_HEADER] = ",".join(missing)
    return web.Response(body=msgspec.json.encode(page), headers=headers)


def _is_ill(status: int) -> bool:
    """Tell whether a cell cannot answer now, which says nothing of the request."""
    return status == 429 or status >= 500


def _merged(
    pages: Mapping[str, Mapping[str, Any]], keeper: Keeper, limit: str, url: str
) -> Mapping[str, Any]:
    first = next(iter(pages.values()))
    rows = next(name for name in ROWS if name in first)
    longest = max(len(page[rows]) for page in pages.values())
    most = int(limit) if limit.isdecimal() else max(PAGE, longest)
    shown = [(shown_by(name, page[rows], keeper), cursor_of(page)) for name, page in pages.items()]
    merged = merge(shown, most)
    return {**first, rows: merged.rows, **_next(first, url, merged.cursor)}


def _next(page: Mapping[str, Any], url: str, cursor: str | None) -> dict[str, Any]:
    """Say how to read on, as pages of this kind do."""
    if "next" not in page:
        return {"cursor": cursor} if "cursor" in page else {}
    return {"next": f"{url}?cursor={cursor}" if cursor else None}
