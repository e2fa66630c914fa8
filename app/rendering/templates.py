"""A model's template files to its named chat templates, and a request to the one that it is rendered with.

Where they come from, later ones winning: ``tokenizer_config.json`` (a string, or a list of named ones),
``chat_template.json``, ``chat_template.jinja``, ``additional_chat_templates/*.jinja``; an override from the settings
replaces them all.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from threading import Lock
from typing import Any

import msgspec

from app.errors import InvalidRequest, StartupError
from app.rendering.template import ChatTemplate

__all__ = ("TEMPLATE_FILES", "ChatTemplates", "read_templates")

TEMPLATE_FILES = (
    "tokenizer_config.json",
    "chat_template.json",
    "chat_template.jinja",
    "additional_chat_templates/*.jinja",
)
"""What to look for in a model's directory."""
REMEMBERED = 32
"""Templates from requests that stay compiled."""


def read_templates(files: Mapping[str, str]) -> dict[str, str]:
    """Template sources by name (default, tool_use, rag, …).

    Args:
        files: text by path within the model's directory; those of :data:`TEMPLATE_FILES` count.

    Raises:
        StartupError: a file is not what it should be.
    """
    found: dict[str, str] = {}
    for name in ("tokenizer_config.json", "chat_template.json"):
        if name in files:
            found.update(named(name, files[name]))
    if "chat_template.jinja" in files:
        found["default"] = files["chat_template.jinja"]
    for path, text in sorted(files.items()):
        folder, _, name = path.rpartition("/")
        if folder == "additional_chat_templates" and name.endswith(".jinja"):
            found[name.removesuffix(".jinja")] = text
    return found


def named(path: str, text: str) -> dict[str, str]:
    """The templates in a JSON file's ``chat_template`` key."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise StartupError(f"{path}: {error}") from error
    value = value.get("chat_template") if isinstance(value, dict) else None
    if isinstance(value, str):
        return {"default": value}
    if isinstance(value, list):
        return {
            entry["name"]: entry["template"]
            for entry in value
            if isinstance(entry, dict) and isinstance(entry.get("name"), str) and isinstance(entry.get("template"), str)
        }
    if isinstance(value, dict):
        return {name: source for name, source in value.items() if isinstance(source, str)}
    return {}


class ChatTemplates:
    """A model's compiled templates.

    Args:
        sources: by name, as :func:`read_templates` gives them.
        override: a source that stands for all of them.
        special_tokens: what templates know as ``bos_token``, ``eos_token`` and so on.
        trust_request: whether a request may bring its own template.

    Raises:
        StartupError: a template cannot be compiled; the message names it.
    """

    def __init__(
        self,
        sources: Mapping[str, str],
        *,
        override: str | None = None,
        special_tokens: Mapping[str, Any] = {},
        trust_request: bool = False,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.special_tokens = dict(special_tokens)
        self.trust_request = trust_request
        self.now = now
        self.overridden = override is not None
        self.named: dict[str, ChatTemplate] = {}
        for name, source in ({"default": override} if override is not None else sources).items():
            try:
                self.named[name] = ChatTemplate(source, now=now)
            except InvalidRequest as error:
                raise StartupError(f"chat template {name!r}: {error.message}") from error
        self.lock = Lock()
        self.from_requests: OrderedDict[str, ChatTemplate] = OrderedDict()

    def sources(self) -> list[str]:
        """Every template's text, for the tokenizer to find the control tokens in."""
        return [template.source for template in self.named.values()]

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
