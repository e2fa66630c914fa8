"""The OpenAPI document and its page at /docs; everything the page needs is served from this package."""

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from litestar import Request, Router, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig, ResponseSpec
from litestar.openapi.plugins import JsonRenderPlugin, OpenAPIRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme, Tag
from litestar.params import FromPath
from litestar.response import File
from litestar.types import Method

from app.http.errors import Family, family
from app.http.shell import OPEN
from app.protocol.errors import AnthropicError, OpenAIError, VllmError

__all__ = ("asset", "error_replies", "openapi_config", "titled")

FOLDER = Path(__file__).parent / "assets"
FILES = frozenset(file.name for file in FOLDER.iterdir())
DESCRIPTION = """\
The CPU side of LLM serving. **Render** turns API requests into token ids, **generate** turns token ids into token ids,
**derender** turns token ids into API replies; the public APIs are all three in one call.

Every example body here can be sent as it is: press *Try it out*, then *Execute*.
"""
TAGS = [
    Tag("render", "API requests to token ids; nothing is generated."),
    Tag("generate", "Token ids to token ids, by the model's engine."),
    Tag("derender", "Token ids to API replies, whole or chunk by chunk; all state is in the request."),
    Tag("chat completions", "OpenAI's chat completions, whole and streamed."),
    Tag("completions", "OpenAI's completions, whole and streamed."),
    Tag("responses", "OpenAI's responses."),
    Tag("conversations", "OpenAI's conversations."),
    Tag("messages", "Anthropic's messages."),
    Tag("tokenize", "Text to ids and back."),
    Tag("models", "What is served."),
    Tag("operations", "Health, version, metrics."),
]


REASONS = {
    400: "The body is no JSON, or a field is wrong; `param` names it.",
    401: "The API key is missing or unknown.",
    404: "There is no such model, response, conversation or item.",
    413: "The body is too large.",
    415: "The body is not JSON by its content type, or compressed.",
    422: "An image or video cannot be had.",
    429: "The server has all the work it can take; `Retry-After` says when to try again.",
    503: "The engine or the database cannot be reached.",
}
BODILESS = (400, 401, 404, 429, 503)
"""What a request without a body can be answered."""
VLLM_ALONE = 422
"""What the public APIs answer with 400."""
BODIES: dict[Family, Any] = {"vllm": VllmError, "openai": OpenAIError, "anthropic": AnthropicError}


def error_replies(path: str, *, bodiless: bool = False) -> dict[int, ResponseSpec]:
    """The documentation of a route's errors, in the shape of its path's API; of one that takes no body, fewer."""
    whose = family(path)
    return {
        status: ResponseSpec(BODIES[whose], description=text, generate_examples=False)
        for status, text in REASONS.items()
        if status in BODILESS or (not bodiless and (status != VLLM_ALONE or whose == "vllm"))
    }


@get("/docs/assets/{name:str}", include_in_schema=False, opt=dict(OPEN))
async def asset(name: FromPath[str]) -> File:
    """A file of the page: one of those that are there, by its name and never by a path."""
    if name not in FILES:
        raise NotFoundException()
    return File(FOLDER / name, filename=name, content_disposition_type="inline")


class Page(OpenAPIRenderPlugin):
    """Swagger UI from our own assets; the page names no other host, and its policy allows none."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """The page as HTML."""
        root = request.scope.get("root_path", "").rstrip("/")
        policy = "default-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self' 'unsafe-inline'"
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
  <title>{openapi_schema["info"]["title"]}</title>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta http-equiv="Content-Security-Policy" content="{policy}">
  <link rel="icon" href="data:,">
  <link rel="stylesheet" href="{root}/docs/assets/swagger-ui.css">
</head>
<body>
  <div id="page"></div>
  <script src="{root}/docs/assets/swagger-ui-bundle.js"></script>
  <script>
    SwaggerUIBundle({{
      url: "{root}/docs/openapi.json",
      dom_id: "#page",
      deepLinking: true,
      docExpansion: "none",
      persistAuthorization: true,
      validatorUrl: null,
      defaultModelsExpandDepth: 0
    }});
  </script>
</body>
</html>
""".encode()


def titled(handlers: Iterable[HTTPRouteHandler]) -> list[HTTPRouteHandler]:
    """The same handlers, each with its name in words as the title of its operations."""
    for handler in handlers:
        handler.summary = handler.handler_name.replace("_", " ").capitalize()
    return list(handlers)


def operation_id(handler: HTTPRouteHandler, method: Method, path: list[Any]) -> str:
    """The handler's name, which names generated clients' functions; with the method where it has several."""
    return handler.handler_name + (f"_{method.lower()}" if len(handler.http_methods) > 1 else "")


def openapi_config() -> OpenAPIConfig:
    """How the document is made and where it is served."""
    return OpenAPIConfig(
        title="Isthmus",
        version=version("isthmus"),
        description=DESCRIPTION,
        use_handler_docstrings=True,
        operation_id_creator=operation_id,
        tags=TAGS,
        security=[{"key": []}],
        components=Components(security_schemes={"key": SecurityScheme(type="http", scheme="bearer")}),
        render_plugins=[Page(path="/"), JsonRenderPlugin(path="/openapi.json")],
        openapi_router=Router("/docs", route_handlers=[], opt=dict(OPEN), include_in_schema=False),
    )
