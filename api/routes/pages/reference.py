"""API reference page at `/docs`, served without any external assets."""

from importlib.resources import files

from fastapi import APIRouter
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import Response

#: What the page loads; the package holds Swagger UI as its makers build it.
STATIC = files("fastapi_offline") / "static"
SCRIPT, STYLE = "swagger-ui-bundle.js", "swagger-ui.css"

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs() -> Response:
    """Show every route, with its fields and examples, and try them."""
    return get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="Atelier",
        swagger_js_url=f"/docs/{SCRIPT}",
        swagger_css_url=f"/docs/{STYLE}",
        swagger_favicon_url="data:,",
    )


@router.get(f"/docs/{SCRIPT}")
def script() -> Response:
    """Serve what draws the page."""
    return _sent(SCRIPT, "text/javascript")


@router.get(f"/docs/{STYLE}")
def style() -> Response:
    """Serve how it looks."""
    return _sent(STYLE, "text/css")


def _sent(name: str, media_type: str) -> Response:
    content = (STATIC / name).read_bytes()
    return Response(content, headers={"Cache-Control": "max-age=3600"}, media_type=media_type)
