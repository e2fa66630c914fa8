"""One file an area; thin handlers over the rest of the server."""

from typing import Any

from app.http.json_route import JsonRoute
from app.http.routes import generate, health, models, render, tokenize

__all__ = ("JSON_ROUTES", "ROUTES")

JSON_ROUTES: list[JsonRoute] = [*render.ROUTES, *tokenize.ROUTES]
ROUTES: list[Any] = [*health.ROUTES, *models.ROUTES, *generate.ROUTES, *(route.handler() for route in JSON_ROUTES)]
