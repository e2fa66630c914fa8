"""Gemma 4 and FunctionGemma: calls as objects with bare keys, strings between tokens."""

from app.parsing.format import LiteralCalls, ReasoningFormat, Sample, Section, ToolFormat

__all__ = ("FUNCTIONGEMMA", "GEMMA4", "GEMMA4_REASONING")


def _gemma(name: str, open: str, close: str, quote: str) -> ToolFormat:
    return ToolFormat(
        name=name,
        sections=(
            Section(
                open=open,
                lead=True,
                body=LiteralCalls(heads=(f"{open} call:{{name}} {{",), quote=quote, close=(close,)),
            ),
        ),
        special_tokens="keep",
        signature=(open, close),
        samples=(
            Sample(
                text=f'ok{open}call:f{{city:{quote}Os"lo{quote},n:3,on:true,list:[1,{quote}a,b{quote}],o:{{k:1.5}}}}{close}'
                f"{open}call:g{{}}{close}",
                content="ok",
                calls=(
                    ("f", '{"city": "Os\\"lo", "n": 3, "on": true, "list": [1, "a,b"], "o": {"k": 1.5}}'),
                    ("g", "{}"),
                ),
            ),
        ),
    )


GEMMA4 = _gemma("gemma4", "<|tool_call>", "<tool_call|>", '<|"|>')
FUNCTIONGEMMA = _gemma("functiongemma", "<start_function_call>", "<end_function_call>", "<escape>")

GEMMA4_REASONING = ReasoningFormat(
    name="gemma4",
    open=("<|channel>thought\n", "<|channel>"),
    close=("<channel|>",),
    special_tokens="keep",
    signature=("<|channel>", "<channel|>"),
    samples=(
        Sample(text="<|channel>thought\nHm.<channel|>Hi.", reasoning="Hm.", content="Hi."),
        Sample(text="<|channel>Hm.<channel|>Hi.", reasoning="Hm.", content="Hi."),
    ),
)
