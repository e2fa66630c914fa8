"""Law 6: what comes from outside never becomes a control token, and costs nothing where it holds none."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from app.models import ServedModel
from app.models.rendering import make_renderer
from app.rendering.conversation import Conversation, Message, Text, Tool, ToolCall
from app.rendering.provenance import Shield
from app.rendering.request import RenderInput, TemplateOptions
from app.settings import Settings

ROLES = ("system", "user", "tool")


def protected(model: ServedModel) -> list[str]:
    return sorted(model.tokenizer.controls.contents)


def pieces(model: ServedModel) -> st.SearchStrategy[str]:
    """Texts of words, whole control tokens, and both halves of them."""
    tokens = protected(model)[:64]
    halves = [half for token in tokens for cut in range(1, len(token)) for half in (token[:cut], token[cut:])]
    words = st.sampled_from(["hi", " ", "\n", "<", "|", ">", "[", "]", "é", "🙂", "user", "<|", "|>", "</"])
    return st.lists(st.one_of(words, st.sampled_from(tokens), st.sampled_from(halves)), min_size=1, max_size=8).map(
        "".join
    )


def render(model: ServedModel, what: Conversation, **options: Any) -> list[int]:
    request = RenderInput(dialect="chat", request_id="r", conversation=what, template=TemplateOptions(**options))
    return asyncio.run(model.renderer.render(request)).token_ids


def control_ids(model: ServedModel, ids: list[int]) -> list[int]:
    contents = model.tokenizer.controls.contents
    ours = {i for i, token in model.tokenizer.added_tokens.items() if token.content in contents}
    return [token for token in ids if token in ours]


def plain_conversation(texts: dict[str, str]) -> Conversation:
    """A conversation that most templates take, with a text from outside in each place."""
    return Conversation(
        messages=[
            Message("system", texts["system"]),
            Message("user", texts["user"]),
            Message("assistant", "Yes."),
            Message("user", [Text(texts["first"]), Text(texts["second"])]),
        ],
        tools=[
            Tool("f", texts["description"], {"type": "object", "properties": {"a": {"description": texts["schema"]}}})
        ],
        documents=[{"title": texts["title"], "text": texts["document"]}],
    )


PLACES = ("system", "user", "first", "second", "description", "schema", "title", "document")


def test_outside_text_gives_no_control_token(any_model: ServedModel) -> None:
    model = any_model
    if not protected(model) or (not model.templates and model.renderer.encoder is None):
        pytest.skip("no control tokens or no template")
    tools = True
    plain = plain_conversation(dict.fromkeys(PLACES, "hello"))
    try:
        expected = control_ids(model, render(model, plain))
    except Exception:
        tools = False
        plain = structs.replace(plain, tools=None, messages=plain.messages[1:])
        expected = control_ids(model, render(model, plain))

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.fixed_dictionaries({place: pieces(model) for place in PLACES}))
    def holds(texts: dict[str, str]) -> None:
        texts = {place: f"x{text}x" if place in ("system", "user") else text for place, text in texts.items()}
        what = plain_conversation(texts)
        if not tools:
            what = structs.replace(what, tools=None, messages=what.messages[1:])
        assert control_ids(model, render(model, what)) == expected

    holds()


def test_clean_text_is_encoded_as_if_rendered_whole(any_model: ServedModel) -> None:
    model = any_model
    if not model.templates or model.renderer.encoder is not None:
        pytest.skip("no template")
    renderer = model.renderer
    exact = structs.replace(
        model, settings=structs.replace(model.settings, special_tokens_in_text="control"), renderer=None
    )
    exact.renderer = make_renderer(exact, Settings())
    firsts = {content[0] for content in protected(model)}
    lasts = "".join(content[1:] for content in protected(model))
    words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(
        lambda text: not (set(text) & firsts) and not (text and text[0] in lasts)
    )

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(words, words)
    def holds(first: str, second: str) -> None:
        what = Conversation(
            messages=[Message("user", f"a{first}"), Message("assistant", "Yes."), Message("user", f"b{second}")]
        )
        assert render(model, what) == render(exact, what)

    holds()
    assert renderer.writer.shield.controls is not None or not protected(model)


def test_the_models_own_words_are_exempt(served_model: Any) -> None:
    model = served_model("qwen3")
    ids = render(
        model,
        Conversation(
            messages=[
                Message("user", "2+2?"),
                Message("assistant", "<think>\nadd\n</think>\n\n4", tool_calls=[ToolCall("f", '{"a": "<|im_end|>"}')]),
                Message("tool", "<|im_end|>"),
            ]
        ),
    )
    end = model.tokenizer.token_to_id("<|im_end|>")
    assert ids.count(end) == 4  # user, the call's argument, assistant, tool: not the tool's own text


def test_kwargs_names_roles_and_ids_are_outside_text(served_model: Any) -> None:
    model = served_model("qwen3")
    end = model.tokenizer.token_to_id("<|im_end|>")
    for message in (Message("user<|im_end|>", "hi"), Message("user", "hi", name="<|im_end|>")):
        assert render(model, Conversation(messages=[message])).count(end) <= 1


def test_control_mode_reads_them(served_model: Any) -> None:
    model = served_model("qwen3", special_tokens_in_text="control")
    ids = render(model, Conversation(messages=[Message("user", "a<|im_end|>b")]))
    assert ids.count(model.tokenizer.token_to_id("<|im_end|>")) == 2


class Angle:
    """Controls that shield every angle bracket."""

    contents = frozenset({"<x>"})

    def shield(self, text: str) -> str:
        return text.replace("<", "\udc00")


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text("a<>", max_size=4)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text("a<", max_size=3), inner, max_size=3)
        ),
        max_leaves=12,
    )
)
def test_every_string_of_a_json_value_is_shielded_once(value: Any) -> None:
    def direct(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("<", "\udc00")
        if isinstance(value, dict):
            return {direct(key): direct(item) for key, item in value.items()}
        return [direct(item) for item in value] if isinstance(value, list) else value

    shielded = Shield(Angle()).value(value)
    assert shielded == direct(value)
    if shielded == value:
        assert shielded is value
