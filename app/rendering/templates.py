"""A model's chat templates, compiled, and a request to the one that it is rendered with."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from threading import Lock
from typing import Any

from app.errors import InvalidRequest, StartupError
from app.rendering.template import ChatTemplate

__all__ = ("ChatTemplates", "special_tokens")

REMEMBERED = 32
"""Templates from requests that stay compiled."""


def special_tokens(*sources: Mapping[str, Any]) -> dict[str, Any]:
    """What templates know as ``bos_token``, ``eos_token``, ``image_token`` and so on.

    Args:
        sources: ``tokenizer_config.json`` and ``special_tokens_map.json``; the first that has a token counts.
    """
    found: dict[str, Any] = {}
    for source in sources:
        extra = source.get("extra_special_tokens")
        for name, value in [*source.items(), *(extra.items() if isinstance(extra, dict) else ())]:
            if not name.endswith("_token") or name.startswith("add_"):
                continue
            if isinstance(value, dict):
                value = value.get("content")
            if isinstance(value, str):
                found.setdefault(name, value)
    return found


class ChatTemplates:
    """A model's compiled templates.

    Args:
        sources: by name: default, and tool_use, rag and the like where the model has them.
        special_tokens: see :func:`special_tokens`.
        trust_request: whether a request may bring its own template.

    Raises:
        StartupError: a template cannot be compiled; the message names it.
    """

    def __init__(
        self,
        sources: Mapping[str, str],
        *,
        special_tokens: Mapping[str, Any] = {},
        trust_request: bool = False,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.special_tokens = dict(special_tokens)
        self.trust_request = trust_request
        self.now = now
        self.named: dict[str, ChatTemplate] = {}
        for name, source in sources.items():
            try:
                self.named[name] = ChatTemplate(source, now=now)
            except InvalidRequest as error:
                raise StartupError(f"chat template {name!r}: {error.message}") from error
        self.lock = Lock()
        self.from_requests: OrderedDict[str, ChatTemplate] = OrderedDict()

    def choose(self, asked: str | None, *, has_tools: bool) -> ChatTemplate:
        """The template for a request.

        Args:
            asked: the request's ``chat_template``: a name, or a source.
            has_tools: picks ``tool_use`` over ``default`` where the model has both.

        Raises:
            InvalidRequest: there is none, or the request brings its own and may not.
        """
        if asked is not None:
            return self.requested(asked)
        if has_tools and "tool_use" in self.named:
            return self.named["tool_use"]
        if "default" in self.named:
            return self.named["default"]
        if len(self.named) == 1:
            return next(iter(self.named.values()))
        raise InvalidRequest("This model has no chat template; set `chat_template` for it.", param="messages")

    def requested(self, asked: str) -> ChatTemplate:
        """A template that a request names or brings."""
        if asked in self.named:
            return self.named[asked]
        for template in self.named.values():
            if asked == template.source:
                return template
        if not self.trust_request:
            raise InvalidRequest(
                "This server takes no chat templates from requests (`trust_request_chat_template`).",
                param="chat_template",
            )
        with self.lock:
            known = self.from_requests.get(asked)
            if known is not None:
                self.from_requests.move_to_end(asked)
                return known
        template = ChatTemplate(asked, now=self.now)
        template.inline = False
        with self.lock:
            self.from_requests[asked] = template
            while len(self.from_requests) > REMEMBERED:
                self.from_requests.popitem(last=False)
        return template
