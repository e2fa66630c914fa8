"""One file an area; thin handlers over the rest of the server."""

from typing import Any

from app.http.routes import health, models

__all__ = ("ROUTES",)

ROUTES: list[Any] = [*health.ROUTES, *models.ROUTES]
