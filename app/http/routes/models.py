"""The served models: GET /v1/models and /v1/models/{name}."""

from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from app.http.codec import reply
from app.http.docs import error_replies
from app.http.service import Service
from app.models import ServedModel
from app.protocol.service import ModelCard, ModelList, ModelPermission

__all__ = ("ROUTES",)


@get("/v1/models", tags=["models"])
async def list_models(service: NamedDependency[Service]) -> Response[ModelList]:
    """Every name that requests can call, aliases included."""
    cards = [_card(model, name) for model in service.models for name in (model.name, *model.aliases)]
    return reply(ModelList(data=cards))


@get("/v1/models/{name:path}", tags=["models"], responses=error_replies("/v1/models", bodiless=True))
async def show_model(service: NamedDependency[Service], name: FromPath[str]) -> Response[ModelCard]:
    """One model by any of its names; hub ids hold a slash, and are taken as they are."""
    wanted = name.removeprefix("/")
    return reply(_card(service.models.get(wanted), wanted))


def _card(model: ServedModel, name: str) -> ModelCard:
    permission = ModelPermission(id=f"modelperm-{model.name}", created=model.created)
    return ModelCard(
        id=name,
        created=model.created,
        root=str(model.source),
        parent=None if name == model.name else model.name,
        max_model_len=model.max_model_len,
        permission=[permission],
    )


ROUTES: list[Any] = [list_models, show_model]
