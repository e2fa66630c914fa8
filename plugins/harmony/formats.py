"""gpt-oss: Harmony's channels and recipients."""

from app.parsing.format import HarmonyMessages, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("OPENAI", "OPENAI_GPTOSS")

_MESSAGES = HarmonyMessages()
_SAMPLES = (
    Sample(
        text="<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>",
        reasoning="Hm.",
        content="Hi.",
    ),
    Sample(
        text="<|channel|>commentary<|message|>Look.<|end|><|start|>assistant to=functions.f<|channel|>commentary "
        '<|constrain|>json<|message|>{"x": "\\""}<|call|><|start|>assistant<|channel|>commentary to=functions.g '
        "<|constrain|>json<|message|>{}<|call|>",
        content="Look.",
        calls=(("f", '{"x": "\\""}'), ("g", "{}")),
    ),
    Sample(text="<|channel|>final<|message|>4<|end|> trailing", content="4 trailing"),
    Sample(text="<|channel|>final", content="<|channel|>final"),
)

OPENAI = ToolFormat(
    name="openai",
    sections=(Section(open="<|channel|>", body=_MESSAGES),),
    signature=("<|channel|>", "<|message|>", "<|call|>"),
    samples=_SAMPLES,
)

OPENAI_GPTOSS = ReasoningFormat(
    name="openai_gptoss",
    ended="always",
    harmony=_MESSAGES,
    signature=("<|channel|>", "<|message|>"),
    samples=_SAMPLES[:1],
)
