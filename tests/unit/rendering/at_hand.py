"""A renderer over a small tokenizer and any template, for tests of rendering."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from app.protocol.generate import GenerateRequest
from app.rendering.conversation import Conversation, Message, Part
from app.rendering.provenance import NO_SHIELD, Shield
from app.rendering.renderer import Renderer
from app.rendering.request import RenderInput, TemplateOptions
from app.rendering.templates import ChatTemplates
from app.tokenizing.control import ControlTokens
from app.tokenizing.tokenizer import AddedToken, Encoded

SPECIALS = ("<s>", "<|im_start|>", "<|im_end|>", "<|image_pad|>", "<think>", "</think>")
PARTS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'image' %}<|image_pad|>{% else %}{{ p.text }}{% endif %}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}"
)
"""A template that takes content parts."""
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class CharacterTokenizer:
    """One id per character, and one for each special token; its BOS is ``<s>``."""

    def __init__(self) -> None:
        self.controls = ControlTokens(SPECIALS)
        self.added_tokens = {n: AddedToken(n, text, True) for n, text in enumerate(SPECIALS)}
        self.special_ids = frozenset(self.added_tokens)
        self.vocab_size = 0x110000 + len(SPECIALS)
        self.bos_token, self.eos_token, self.eos_token_id = "<s>", "<|im_end|>", 2
        self.threads: set[str] = set()

    def encode_remembered(self, text: str, *, add_special_tokens: bool = False, most: int) -> Encoded | None:
        """Remembers nothing."""
        return None

    def encode(
        self, text: str, *, add_special_tokens: bool = False, offsets: bool = False, controls: bool = True
    ) -> Encoded:
        import threading

        self.threads.add(threading.current_thread().name)
        if not controls:
            text = self.controls.shield(text)
        ids, places, at = [], [], 0
        while at < len(text):
            token = next((n for n, special in enumerate(SPECIALS) if text.startswith(special, at)), None)
            length = 1 if token is None else len(SPECIALS[token])
            ids.append(len(SPECIALS) + ord(self.controls.restore(text[at])) if token is None else token)
            places.append((at, at + length))
            at += length
        if add_special_tokens:
            ids, places = [0, *ids], [(0, 0), *places]
        return Encoded(ids, places if offsets else None)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return "".join(SPECIALS[i] if i < len(SPECIALS) else chr(i - len(SPECIALS)) for i in ids)

    def token_bytes(self, token_id: int) -> bytes:
        return b"<|image_pad|>"

    def token_to_id(self, token: str) -> int | None:
        return SPECIALS.index(token) if token in SPECIALS else None

    def id_to_token(self, token_id: int) -> str | None:
        return self.decode([token_id])


def renderer(
    template: str | dict[str, str] = CHATML,
    *,
    provenance: bool = True,
    trust: bool = False,
    max_model_len: int = 4096,
    now: datetime = datetime(2026, 11, 29),
    tokenizer: Any = None,
    **fields: Any,
) -> Renderer:
    """A renderer of one template, or of several named ones."""
    tokenizer = tokenizer or CharacterTokenizer()
    sources = {"default": template} if isinstance(template, str) else template
    templates = ChatTemplates(
        sources, special_tokens={"bos_token": "<s>", "eos_token": "<|im_end|>"}, trust_request=trust, now=lambda: now
    )
    return Renderer(
        "tiny",
        tokenizer,
        max_model_len=max_model_len,
        templates=templates,
        shield=Shield(tokenizer.controls) if provenance else NO_SHIELD,
        exact=not provenance,
        **fields,
    )


def conversation(*turns: tuple[str, str | list[Part] | None] | Message, **fields: Any) -> Conversation:
    """A conversation of (role, content) pairs and messages."""
    messages = [turn if isinstance(turn, Message) else Message(role=turn[0], content=turn[1]) for turn in turns]
    return Conversation(messages=messages, **fields)


def ask(
    server: Renderer,
    what: Conversation,
    *,
    dialect: Any = "chat",
    request: dict[str, Any] | None = None,
    **options: Any,
) -> GenerateRequest:
    """What the renderer answers."""
    render_input = RenderInput(
        dialect=dialect, request_id="r", conversation=what, template=TemplateOptions(**options), **(request or {})
    )
    return asyncio.run(server.render(render_input))


def written(server: Renderer, what: Conversation, **options: Any) -> str:
    """The rendered prompt as text."""
    return server.tokenizer.decode(ask(server, what, **options).token_ids)
