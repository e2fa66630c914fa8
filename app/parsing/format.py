"""How one model family writes reasoning and tool calls, as data: what a formats plugin builds.

A plugin is an entry point of the group ``isthmus.formats``. Its name is ``tool.<name>`` or ``reasoning.<name>`` (vLLM's
name for the format: ``tool.hermes``, ``reasoning.qwen3``) and its value a :class:`ToolFormat` or
:class:`ReasoningFormat` of a module that imports nothing but this one::

    [project.entry-points."isthmus.formats"]
    "tool.hermes" = "plugins.qwen.formats:HERMES"
    "tool.qwen3_json" = "plugins.qwen.formats:HERMES"
    "reasoning.qwen3" = "plugins.qwen.formats:QWEN3"

Several names may stand for one object (aliases). One object serves every tokenizer: literals that are added tokens of
the served model's vocabulary are matched by token id, all others as text.

**Head templates** describe fixed text around what varies: ``<function={name}>``. ``{name}`` is a function's name (1 to
256 of ``A-Za-z0-9_.-:/``), ``{key}`` an argument's, ``{index}`` a number, ``{id}`` a call id, ``{type}`` the word that
types a value; white space matches any run of white space, also none.
"""

from typing import Any, Literal

from msgspec import Struct, field

from app.parsing.body import CustomBody

__all__ = (
    "Body",
    "Constraints",
    "CustomBody",
    "Elements",
    "HarmonyMessages",
    "JsonCalls",
    "LiteralCalls",
    "LooseArguments",
    "NamedJson",
    "PythonCalls",
    "ReasoningFormat",
    "Sample",
    "Section",
    "SpecialTokens",
    "ToolFormat",
)

SpecialTokens = Literal["skip", "keep", "with_tools", "unless_none"]
"""When a rendered request forces ``skip_special_tokens = false``: never; always; with tools and a tool choice other
than none; whenever the tool choice is not none."""


class Sample(Struct, frozen=True, kw_only=True):
    """One output of the model and what it means; the conformance kit runs all of them.

    ``calls`` are (name, arguments as the JSON text that must come out, character for character). ``reasoning`` and
    ``content`` are compared with outer white space stripped. ``complete`` is False for an output that was cut.
    """

    text: str
    content: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    complete: bool = True
    template_kwargs: dict[str, Any] = field(default_factory=dict)
    reasoning_format: str = ""
    """For a tool format's sample: the reasoning format it is read with (a registered name)."""


class JsonCalls(Struct, frozen=True, kw_only=True, tag=True):
    """Calls as JSON objects with named keys, alone, one after another, or in a list.

    The first key of ``name`` and of ``arguments`` that an object has counts; the values of ``ids`` become the call's
    native id where they are strings. ``keyed``: the object's only key is the name, its value the arguments.
    ``around``: literals that may stand before or after an object.
    """

    name: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ("arguments", "parameters")
    ids: tuple[str, ...] = ()
    separators: str = ",;"
    keyed: bool = False
    around: tuple[str, ...] = ()


class NamedJson(Struct, frozen=True, kw_only=True, tag=True):
    """Calls as a head with the name, then one JSON value, then one of ``close`` (none: the value's end is the end).

    ``certain``: a call is a call from its head on; False where the head is but a name, so that an object must follow.
    """

    heads: tuple[str, ...]
    close: tuple[str, ...] = ()
    certain: bool = True


class Elements(Struct, frozen=True, kw_only=True, tag=True):
    """Calls as a head with the name, then one element per argument, whose value is text between head and close.

    ``trim``: take off one newline at each end of a value. ``typed_by``: where a value's type comes from; ``"schema"``
    (the tool's JSON schema), or the word of ``{type}`` in the parameter's head where it has one: ``"flag"`` (``true``:
    a string, ``false``: JSON) or ``"word"`` (``string``, else JSON). ``certain``: a call is one from its head on; False
    where the head is but a name, so that an argument or the end must follow. ``nested``: a marker before every tag of
    elements that a value may hold (objects and lists); ``{key}`` may stand in ``parameter_close``. ``doubled``:
    models write a tool's name twice (``f.f``); it is ``f`` where the request has such a tool and none called ``f.f``.
    """

    heads: tuple[str, ...]
    parameters: tuple[str, ...]
    parameter_close: tuple[str, ...]
    close: tuple[str, ...]
    trim: bool = False
    typed_by: Literal["schema", "flag", "word"] = "schema"
    certain: bool = True
    nested: str = ""
    doubled: bool = False


class PythonCalls(Struct, frozen=True, kw_only=True, tag=True):
    """Calls as Python: ``[f(a=1), g()]`` where ``listed``, else one call a line."""

    listed: bool = True


class LiteralCalls(Struct, frozen=True, kw_only=True, tag=True):
    """Calls as a head and an object with bare keys, whose strings stand between ``quote`` tokens."""

    heads: tuple[str, ...]
    quote: str
    close: tuple[str, ...] = ()


class HarmonyMessages(Struct, frozen=True, kw_only=True, tag=True):
    """Messages with channel headers; reasoning, content and calls are channels and recipients of one stream."""

    start: str = "<|start|>"
    channel: str = "<|channel|>"
    constrain: str = "<|constrain|>"
    message: str = "<|message|>"
    ends: tuple[str, ...] = ("<|end|>", "<|call|>", "<|return|>")
    reasoning: tuple[str, ...] = ("analysis",)
    recipient: str = "functions."


Body = JsonCalls | NamedJson | Elements | PythonCalls | LiteralCalls | HarmonyMessages


class Section(Struct, frozen=True, kw_only=True):
    """A stretch of output that holds calls.

    ``open`` is the literal that begins it; with ``bare`` it is looked at, not consumed, and counts only at the start
    of a line of content (a JSON object or list that stands alone). ``lead``: looked at, not consumed, anywhere (calls
    that a model writes without the section's own opener). Sections with one opener are tried in order. ``close``:
    one of these may end it. ``repeat``: several calls may follow each other in it.
    """

    open: str
    body: Body | CustomBody
    close: tuple[str, ...] = ()
    bare: bool = False
    lead: bool = False
    repeat: bool = True


class LooseArguments(Struct, frozen=True, kw_only=True):
    """Arguments of a tool that isn't strict: elements for any of its schema's keys, in any order and number.

    ``open`` (with ``{key}``) and ``close`` stand around a value: bare text or, where the schema gives another basic
    type, JSON. ``excludes``: what the text can't hold.
    """

    open: str
    close: str
    excludes: tuple[str, ...] = ()


class Constraints(Struct, frozen=True, kw_only=True):
    """What makes an engine write only this format: the pieces of xgrammar's structural tags.

    ``tags``: what stands before and after one call's arguments, a pair for each spelling that the model may choose;
    ``{name}`` is the tool's name, ``{index}`` any number. ``style`` names the arguments' grammar: ``"json"`` or another
    of xgrammar's (``"qwen_xml"``, ``"glm_xml"``, ...); ``loose`` is that of tools that aren't strict, where it differs.
    ``separator`` stands between two calls.
    ``section_open`` and one of ``section_close`` stand around all calls.
    ``trigger`` begins a call, or the section, in free text, which can't hold ``excludes``. ``once``: a section ends
    the turn. ``always``: calls are held to the format even where nothing in the request asks for it.
    A required choice is the list of calls alone (``"listed"``) or text that must come to one (``"triggered"``); a named
    choice a list that stops after one (``"listed"``), one call (``"alone"``), or one call with the section's markers as
    parts of its own (``"merged"``). ``lead`` is what models write before a section that they are made to write; None:
    the section is one tag.
    """

    tags: tuple[tuple[str, str], ...]
    trigger: str
    style: str = "json"
    loose: LooseArguments | None = None
    separator: str = ""
    section_open: str = ""
    section_close: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    once: bool = False
    always: bool = False
    required: Literal["listed", "triggered"] = "listed"
    named: Literal["listed", "alone", "merged"] = "listed"
    lead: str | None = None


class ToolFormat(Struct, frozen=True, kw_only=True):
    """A syntax of tool calls.

    ``call_ids``: how ids look in replies: ``"generated"`` (the server's own), ``"counted"`` (Kimi's
    ``functions.<name>:<n>``, n counted over the conversation; the parser writes it as ``native_id``) or
    ``"alphanumeric9"`` (Mistral's nine letters or digits).
    ``constraints``: how a forced or strict call is constrained; None: a forced one by a plain JSON schema, with the
    keys of ``forced_keys`` for a call's name and arguments.
    ``signature``: literals of which all stand in the chat template (or are added tokens) of a model of this format;
    ``tool_format = "auto"`` goes by them; empty: never recognised.
    """

    name: str
    sections: tuple[Section, ...]
    suffixed: bool = False
    """Added tokens that are a literal with ``:word`` before its ``>`` count as the literal (Hunyuan's checkpoints)."""
    special_tokens: SpecialTokens = "skip"
    call_ids: Literal["generated", "counted", "alphanumeric9"] = "generated"
    constraints: Constraints | None = None
    forced_keys: tuple[str, str] | None = None
    signature: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()


class ReasoningFormat(Struct, frozen=True, kw_only=True):
    """A syntax of reasoning.

    ``starts``: where output begins if the prompt holds no marker after its last header: ``"inside"``, ``"outside"``, or
    ``"asked"`` (inside only where the template kwargs switch thinking on). One of the kwargs in ``switches`` set to
    false, ``"none"`` or ``"no_think"`` always means outside.
    ``ended``: the rendered ``reasoning_ended``: ``"closed"`` (the prompt closes it), ``"closed_or_off"`` (or the kwargs
    switch it off), ``"unless_asked"`` (true unless the kwargs switch it on), ``"always"``.
    ``dropped``: markers that give no text (``<answer>``). ``as_content``: reasoning is not split off but stays in
    content, after this text where the prompt opened it (MiniMax's append_think).
    ``harmony``: reasoning is a channel; the markers are those of its messages.
    """

    name: str
    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    starts: Literal["inside", "outside", "asked"] = "outside"
    ended: Literal["closed", "closed_or_off", "unless_asked", "always"] = "closed"
    switches: tuple[str, ...] = ("enable_thinking", "thinking")
    dropped: tuple[str, ...] = ()
    as_content: str = ""
    harmony: HarmonyMessages | None = None
    suffixed: bool = False
    """As in :class:`ToolFormat`."""
    special_tokens: SpecialTokens = "skip"
    signature: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()
