"""API reference page at `/docs`, served without any external assets."""

from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, HTTPException
from starlette.responses import HTMLResponse, Response

#: The page itself, colours that can be read, names of controls that have none.
OURS: Final = files("api") / "routes" / "pages"
#: Swagger UI as its makers build it.
MADE: Final = files("fastapi_offline") / "static"
#: What the page loads, and its media type.
PARTS: Final = {
    "swagger-ui-bundle.js": (MADE, "text/javascript"),
    "swagger-ui.css": (MADE, "text/css"),
    "reference.js": (OURS, "text/javascript"),
    "reference.css": (OURS, "text/css"),
}

router = APIRouter(include_in_schema=False)


@router.get("/docs")
def docs() -> Response:
    """Show every route, with its fields and examples, and try them."""
    return HTMLResponse(_html())


@router.get("/docs/{name}")
def part(name: str) -> Response:
    """Serve what the page loads."""
    if name not in PARTS:
        raise HTTPException(404, "the reference has no such part")
    folder, media_type = PARTS[name]
    kept = {"Cache-Control": "max-age=3600"}
    return Response((folder / name).read_bytes(), headers=kept, media_type=media_type)


@cache
def _html() -> str:
    return (OURS / "reference.html").read_text("utf-8")
