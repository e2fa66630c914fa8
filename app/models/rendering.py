"""A served model's files, formats and settings to its renderer."""

from typing import Any

from app.models.formats import Plugins
from app.models.served import ServedModel
from app.models.source import cache_directory
from app.rendering.encoder import EncoderContext, PromptEncoder
from app.rendering.media import MediaEncoder
from app.rendering.provenance import NO_SHIELD, Shield
from app.rendering.renderer import Renderer
from app.rendering.template import clock
from app.rendering.templates import ChatTemplates, special_tokens
from app.settings import Settings

__all__ = ("find_encoder", "make_renderer")

GROUP = "isthmus.encoders"


def make_renderer(
    model: ServedModel, settings: Settings, *, encoder: PromptEncoder | None = None, media: MediaEncoder | None = None
) -> Renderer:
    """The renderer of one model, whose tokenizer knows already what it protects.

    Raises:
        StartupError: a template does not compile.
    """
    files = model.tokenizer.files
    own = model.settings
    templates = None
    if model.templates and encoder is None:
        templates = ChatTemplates(
            model.templates,
            special_tokens=special_tokens(files.config, files.special_tokens_map),
            trust_request=settings.trust_request_chat_template,
            now=clock(settings.now),
        )
    control = own.special_tokens_in_text == "control"
    return Renderer(
        model.name,
        model.tokenizer,
        max_model_len=model.max_model_len,
        templates=templates,
        encoder=encoder,
        tool_format=model.tool_format,
        reasoning_format=model.reasoning_format,
        generation_defaults=model.generation_defaults,
        chat_template_kwargs=own.chat_template_kwargs,
        shield=NO_SHIELD if control else Shield(model.tokenizer.controls),
        exact=control,
        media=media,
        trust_request_mm_kwargs=settings.trust_request_mm_kwargs,
        template_timeout_s=settings.template_timeout_s,
    )


def find_encoder(model: ServedModel, settings: Settings, plugins: Plugins) -> PromptEncoder | None:
    """The prompt encoder that the settings name, or that is registered for the model's type; None for none.

    Raises:
        StartupError: the named one is not there, or cannot be made for this model.
    """
    name = model.settings.encoder
    if name in ("", "none"):
        return None
    if name == "auto":
        name = model.model_type
        if name not in plugins.names(GROUP):
            return None
    make: Any = plugins.get(GROUP, name)
    encoder: PromptEncoder = make(
        EncoderContext(
            source=model.source,
            config=model.config,
            tokenizer=model.tokenizer,
            cache_dir=cache_directory(),
            control_in_text=model.settings.special_tokens_in_text == "control",
            now=clock(settings.now),
        )
    )
    return encoder
