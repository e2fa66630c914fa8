"""Assistant turns as models write them, family by family, and which a history writes otherwise.

``text`` is what the model generates after the generation prompt, its end token included. ``otherwise`` says why the
history of that turn can't have the same tokens: what the family's own template does to it.
"""

from typing import Any

from msgspec import Struct

__all__ = ("TURNS", "Turn")

_TIDE = '{"port": "Oslo", "days": 2}'


class Turn(Struct, frozen=True, kw_only=True):
    """One turn; ``calls`` are (name, arguments) and ``tools`` says whether the request offers tools."""

    model: str
    case: str
    text: str
    tool_format: str = "none"
    reasoning_format: str = "none"
    reasoning: str | None = None
    content: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    kwargs: dict[str, Any] = {}
    tools: bool = True
    otherwise: str = ""
    shared: bool = False
    """Whether only the shared folder has the template, and the built model of this name another."""


_DROPS_REASONING = "the template drops the reasoning of turns before the last user message"
_NO_REASONING = "the template knows no reasoning"
_LATE_ID = "the model writes a call's id last, when clients of a stream have long been told another"
ONE = (("tide", _TIDE),)
NONE = (("now", "{}"),)
TWO = ONE + NONE


def _family(model: str, tool_format: str, reasoning_format: str, *turns: dict[str, Any]) -> tuple[Turn, ...]:
    return tuple(
        Turn(model=model, tool_format=tool_format, reasoning_format=reasoning_format, **turn) for turn in turns
    )


def _hermes(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def _hermes_turns(think: str = "") -> tuple[dict[str, Any], ...]:
    reasoning = "Hm." if think else None
    one, now = _hermes("tide", _TIDE), _hermes("now", "{}")
    return (
        {"case": "text", "text": "It is two.<|im_end|>", "content": "It is two."},
        {"case": "one call", "text": f"{think}Let me see.\n{one}<|im_end|>", "content": "Let me see.", "calls": ONE,
         "reasoning": reasoning},
        {"case": "two calls", "text": f"{think}{one}\n{now}<|im_end|>", "calls": TWO, "reasoning": reasoning},
        {"case": "no arguments", "text": f"{now}<|im_end|>", "calls": NONE},
    )  # fmt: skip


QWEN = (
    *_family("qwen2.5", "hermes", "none", *_hermes_turns()),
    *_family(
        "qwen3", "hermes", "qwen3",
        *_hermes_turns("<think>\nHm.\n</think>\n\n")[1:],
        {"case": "reasoning", "text": "<think>\nHm.\n</think>\n\nIt is two.<|im_end|>", "reasoning": "Hm.",
         "content": "It is two.", "otherwise": _DROPS_REASONING},
        {"case": "thinking off", "text": "It is two.<|im_end|>", "content": "It is two.",
         "kwargs": {"enable_thinking": False},
         "otherwise": "the generation prompt has an empty thought that history leaves out"},
    ),
    *_family("hermes-2-pro-llama3", "hermes", "none", *_hermes_turns()[2:]),
)  # fmt: skip

LLAMA = _family(
    "llama3.1", "llama3_json", "none",
    {"case": "text", "text": "It is two.<|eot_id|>", "content": "It is two."},
    {"case": "one call", "text": f'{{"name": "tide", "parameters": {_TIDE}}}<|eot_id|>', "calls": ONE},
    {"case": "no arguments", "text": '{"name": "now", "parameters": {}}<|eot_id|>', "calls": NONE},
    {"case": "two calls", "text": f'{{"name": "tide", "parameters": {_TIDE}}}; {{"name": "now", "parameters": {{}}}}'
     "<|eot_id|>", "calls": TWO, "otherwise": "the template refuses more than one call a turn"},
    {"case": "two python tags", "text": f'<|python_tag|>{{"name": "tide", "parameters": {_TIDE}}}<|eom_id|>',
     "calls": ONE, "otherwise": "the template writes calls without the tag, which it keeps for tools of its own"},
)  # fmt: skip

MISTRAL = (
    *_family(
        "mistral-nemo-hf", "mistral", "none",
        {"case": "text", "text": "It is two.</s>", "content": "It is two.", "tools": False},
        {"case": "text with tools", "text": "It is two.</s>", "content": "It is two.",
         "otherwise": "the template moves the tools before the last user message"},
        {"case": "two calls", "text": f'[TOOL_CALLS][{{"arguments": {_TIDE}, "name": "tide", "id": "abcDEF123"}}, '
         '{"arguments": {}, "name": "now", "id": "abcDEF124"}]</s>', "calls": TWO, "otherwise": _LATE_ID},
        {"case": "no arguments", "text": '[TOOL_CALLS][{"arguments": {}, "name": "now", "id": "abcDEF124"}]</s>',
         "calls": NONE, "otherwise": _LATE_ID},
        {"case": "name first", "text": f'[TOOL_CALLS][{{"name": "tide", "arguments": {_TIDE}}}]</s>', "calls": ONE,
         "otherwise": "the template writes the arguments first and the call's id last"},
    ),
    *_family(
        "mistral-small-3.2-hf", "mistral", "none",
        {"case": "one call", "text": f"[TOOL_CALLS]tide[CALL_ID]abcDEF123[ARGS]{_TIDE}</s>", "calls": ONE},
        {"case": "two calls", "text": f"[TOOL_CALLS]tide[CALL_ID]abcDEF123[ARGS]{_TIDE}"
         "[TOOL_CALLS]now[CALL_ID]abcDEF124[ARGS]{}</s>", "calls": TWO},
        {"case": "no arguments", "text": "[TOOL_CALLS]now[CALL_ID]abcDEF124[ARGS]{}</s>", "calls": NONE},
        {"case": "no id", "text": "[TOOL_CALLS]now[ARGS]{}</s>", "calls": NONE,
         "otherwise": "the template writes the id that the reply gave the call"},
    ),
)  # fmt: skip

_V3 = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{}\n```json\n{}\n```<｜tool▁call▁end｜>"
_V31 = "<｜tool▁call▁begin｜>{}<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
_EOS = "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>"
_CALLS = "<｜tool▁calls▁begin｜>"

DEEPSEEK = (
    *_family(
        "deepseek-v3", "deepseek_v3", "none",
        {"case": "text", "text": "It is two.<｜end▁of▁sentence｜>", "content": "It is two.",
         "shared": True},
        {"case": "two calls", "text": f"{_CALLS}{_V3.format('tide', _TIDE)}\n{_V3.format('now', '{}')}{_EOS}",
         "calls": TWO, "shared": True},
        {"case": "one call", "text": f"{_CALLS}{_V3.format('now', '{}')}{_EOS}", "calls": NONE,
         "otherwise": "the template doesn't close the section of a single call", "shared": True},
        {"case": "content and call", "text": f"Let me see.{_CALLS}{_V3.format('tide', _TIDE)}{_EOS}", "calls": ONE,
         "content": "Let me see.", "otherwise": "the template drops the calls of a turn that has content",
         "shared": True},
    ),
    *_family(
        "deepseek-v3", "deepseek_v3", "deepseek_r1",
        {"case": "opened reasoning", "text": "Hm.\n</think>\n\nIt is two.<｜end▁of▁sentence｜>", "reasoning": "Hm.",
         "content": "It is two.", "otherwise": _DROPS_REASONING},
    ),
    *_family(
        "deepseek-v3.1", "deepseek_v31", "deepseek_v3",
        {"case": "text", "text": "It is two.<｜end▁of▁sentence｜>", "content": "It is two."},
        {"case": "one call", "text": f"Let me see.{_CALLS}{_V31.format('tide', _TIDE)}{_EOS}", "calls": ONE,
         "content": "Let me see."},
        {"case": "two calls", "text": f"{_CALLS}{_V31.format('tide', _TIDE)}{_V31.format('now', '{}')}{_EOS}",
         "calls": TWO},
        {"case": "no arguments", "text": f"{_CALLS}{_V31.format('now', '{}')}{_EOS}", "calls": NONE},
        {"case": "reasoning", "text": "Hm.</think>It is two.<｜end▁of▁sentence｜>", "reasoning": "Hm.",
         "content": "It is two.", "kwargs": {"thinking": True}, "otherwise": _NO_REASONING},
    ),
)  # fmt: skip

_GLM_TIDE = (
    "<tool_call>tide\n<arg_key>port</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n"
    "<arg_value>2</arg_value>\n</tool_call>"
)
_GLM_TURNS: tuple[dict[str, Any], ...] = (
    {"case": "text", "text": "\n<think></think>\nIt is two.<|user|>", "content": "It is two."},
    {"case": "one call", "text": f"\n<think>Hm.</think>\nLet me see.\n{_GLM_TIDE}<|observation|>", "reasoning": "Hm.",
     "content": "Let me see.", "calls": ONE},
    {"case": "two calls", "text": f"\n<think>Hm.</think>\n{_GLM_TIDE}\n<tool_call>now\n</tool_call><|observation|>",
     "reasoning": "Hm.", "calls": TWO},
    {"case": "no arguments", "text": "\n<think></think>\n<tool_call>now\n</tool_call><|observation|>", "calls": NONE},
    {"case": "reasoning", "text": "\n<think>Hm.</think>\nIt is two.<|user|>", "reasoning": "Hm.",
     "content": "It is two.", "otherwise": _DROPS_REASONING},
)  # fmt: skip
GLM = (
    *_family("glm-4.5-surrogate", "glm45", "glm45", *_GLM_TURNS),
    *_family("glm-4.6-surrogate", "glm47", "glm45", *_GLM_TURNS),
)

_K2 = "<|tool_call_begin|>functions.{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
_SECTION = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|><|im_end|>"

KIMI = _family(
    "kimi-k2-surrogate", "kimi_k2", "kimi_k2",
    {"case": "text", "text": "<think></think>It is two.<|im_end|>", "content": "It is two.",
     "otherwise": _NO_REASONING},
    {"case": "one call", "text": f"Let me see.{_SECTION.format(_K2.format('tide:0', _TIDE))}", "calls": ONE,
     "content": "Let me see.", "kwargs": {"thinking": False}},
    {"case": "two calls", "text": _SECTION.format(_K2.format("tide:0", _TIDE) + _K2.format("now:1", "{}")),
     "calls": TWO},
    {"case": "no arguments", "text": _SECTION.format(_K2.format("now:0", "{}")), "calls": NONE},
    {"case": "reasoning", "text": f"<think>Hm.</think>{_SECTION.format(_K2.format('now:0', '{}'))}",
     "reasoning": "Hm.", "calls": NONE, "otherwise": _NO_REASONING},
)  # fmt: skip

_M2_TIDE = (
    '<invoke name="tide">\n<parameter name="port">Oslo</parameter>\n<parameter name="days">2</parameter>\n</invoke>\n'
)
_M2 = "\n<minimax:tool_call>\n{}</minimax:tool_call>[e~["
_M2_NOW = '<invoke name="now">\n</invoke>\n'

MINIMAX = _family(
    "minimax-m2-surrogate", "minimax_m2", "minimax_m2",
    {"case": "one call", "text": f"Hm.\n</think>\n\nLet me see.{_M2.format(_M2_TIDE)}", "reasoning": "Hm.",
     "content": "Let me see.", "calls": ONE},
    {"case": "two calls", "text": f"Hm.\n</think>\n\n{_M2.format(_M2_TIDE + _M2_NOW)}", "reasoning": "Hm.",
     "calls": TWO},
    {"case": "no arguments", "text": f"Hm.\n</think>\n\n{_M2.format(_M2_NOW)}", "reasoning": "Hm.", "calls": NONE},
    {"case": "reasoning", "text": "Hm.\n</think>\n\nIt is two.[e~[", "reasoning": "Hm.", "content": "It is two.",
     "otherwise": _DROPS_REASONING},
    {"case": "no reasoning", "text": f"</think>\n\n{_M2.format(_M2_NOW)}", "calls": NONE,
     "otherwise": "the generation prompt opens a thought that history leaves out where it is empty"},
)  # fmt: skip

_THOUGHT = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
_HARMONY_TIDE = f" to=functions.tide<|channel|>commentary json<|message|>{_TIDE}<|call|>"
_HARMONY_NOW = " to=functions.now<|channel|>commentary json<|message|>{}<|call|>"

HARMONY = _family(
    "gpt-oss", "openai", "openai_gptoss",
    {"case": "one call", "text": f"{_THOUGHT}<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant"
     f"{_HARMONY_TIDE}", "reasoning": "Hm.", "content": "Let me see.", "calls": ONE},
    {"case": "two calls", "text": f"{_THOUGHT}{_HARMONY_TIDE}<|start|>assistant{_HARMONY_NOW}", "reasoning": "Hm.",
     "calls": TWO},
    {"case": "no arguments", "text": _HARMONY_NOW, "calls": NONE},
    {"case": "recipient after the channel", "text": "<|channel|>commentary to=functions.now <|constrain|>json"
     "<|message|>{}<|call|>", "calls": NONE, "otherwise": "history has the recipient in the place of the role"},
    {"case": "text", "text": "<|channel|>final<|message|>It is two.<|return|>", "content": "It is two.",
     "otherwise": "history ends a message with <|end|>, and only generation with <|return|>"},
    {"case": "reasoning", "text": f"{_THOUGHT}<|channel|>final<|message|>It is two.<|return|>", "reasoning": "Hm.",
     "content": "It is two.", "otherwise": "history drops the thoughts of turns that gave an answer"},
)  # fmt: skip

PLAIN = (
    Turn(model="phi-4", case="text", text="It is two.<|im_end|>", content="It is two.", tools=False),
    Turn(model="gemma3", case="text", text="It is two.<end_of_turn>", content="It is two.", tools=False),
    Turn(model="command-r", case="text", text="It is two.<|END_OF_TURN_TOKEN|>", content="It is two.", tools=False),
    Turn(model="phi-3", case="text", text="It is two.<|end|>", content=" It is two.", tools=False),
    Turn(model="mistral-7b", case="text", text=" It is two.</s>", content=" It is two.", tools=False),
)

TURNS = (*QWEN, *LLAMA, *MISTRAL, *DEEPSEEK, *GLM, *KIMI, *MINIMAX, *HARMONY, *PLAIN)
