"""What the routes stand on: settings, plugins, models and store of one running server."""

import time
from typing import Any

from app.registry import Registry
from app.settings import Settings

__all__ = ("Service",)


class Service:
    """Made empty with the app and filled by the lifespan, before the first request but health is answered."""

    settings: Settings
    registry: Registry
    models: Any
    store: Any = None
    """The store of turns; None where ``database_url`` is empty."""

    def __init__(self) -> None:
        self.started = time.time()
        self.ready = False
        """True once every model has rendered a probe."""
