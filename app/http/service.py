"""What the routes stand on: settings, plugins, models and store of one running server."""

import time
from typing import TYPE_CHECKING

from app.derendering.stream_state import StateSeal
from app.http.exchange import Exchange
from app.models import Models, ServedModel
from app.registry import Registry
from app.settings import Settings

if TYPE_CHECKING:
    from app.runs.state import State

__all__ = ("Service",)


class Service:
    """Made empty with the app and filled by the lifespan, before anything but health is answered."""

    settings: Settings
    registry: Registry
    models: Models
    seal: StateSeal
    """Signs and opens the state of derender streams."""
    store: "State | None" = None
    """The store of turns; None where ``database_url`` is empty."""

    def __init__(self) -> None:
        self.started = time.time()
        self.ready = False
        """True once every model has rendered a probe."""

    def model(self, name: str | None, exchange: Exchange) -> ServedModel:
        """The served model that a request names, noted in its exchange.

        Raises:
            ModelNotFound: there is none of this name.
        """
        model = self.models.get(name)
        exchange.model = model.name
        return model
