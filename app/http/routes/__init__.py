"""One file an area; thin handlers over the rest of the server."""

from typing import Any

from app.http.json_route import JsonRoute
from app.http.routes import (
    chat,
    completions,
    conversations,
    derender,
    generate,
    health,
    messages,
    models,
    render,
    responses,
    tokenize,
)

__all__ = ("JSON_ROUTES", "ROUTES")

JSON_ROUTES: list[JsonRoute] = [*render.ROUTES, *derender.ROUTES, *tokenize.ROUTES, *messages.JSON_ROUTES]
_WHOLE: list[Any] = [
    *health.ROUTES,
    *models.ROUTES,
    *generate.ROUTES,
    *chat.ROUTES,
    *completions.ROUTES,
    *messages.ROUTES,
    *responses.ROUTES,
    *conversations.ROUTES,
]
ROUTES: list[Any] = [*_WHOLE, *(route.handler() for route in JSON_ROUTES)]
