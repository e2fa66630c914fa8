import json

import msgspec
import pytest

from app.dialects.messages.read import read_for_counting
from app.protocol.generate import StructuredOutputs
from app.protocol.messages import MESSAGES_EXAMPLE, CountTokensRequest, MessagesRequest
from app.rendering.conversation import Media, Message, Text, ToolCall
from app.rendering.request import NamedTool
from tests.unit.dialects.bodies import MODEL, USER, Model, conversation, messages, refused

TIDE = {"name": "tide", "description": "Its height.", "input_schema": {"properties": {}}}
MOON = {"name": "moon", "input_schema": {"type": "object"}, "defer_loading": True}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}


def one(role: str, *blocks: object) -> list[Message]:
    return conversation(messages(messages=[*USER, {"role": role, "content": list(blocks)}]))[1:]


def text(value: str) -> dict[str, object]:
    return {"type": "text", "text": value, "cache_control": {"type": "ephemeral"}}


def test_the_example_is_read() -> None:
    given = messages(**MESSAGES_EXAMPLE)
    assert [message.role for message in conversation(given)] == ["system", "user"]
    assert given.model == "demo"


def test_ids() -> None:
    assert messages(header="h").request_id == "chatcmpl-h"
    assert len(messages().request_id) == len("chatcmpl-") + 16


def test_needed_fields() -> None:
    for body in (
        {"messages": USER, "max_tokens": 1},
        {"model": "x", "max_tokens": 1},
        {"model": "x", "messages": USER},
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(body, MessagesRequest)
    with pytest.raises(msgspec.ValidationError, match="model"):
        messages(model="")


class TestBlocks:
    def test_system_texts_are_joined(self) -> None:
        (system, _) = conversation(messages(system=[text("One."), text("Two.")]))
        assert system == Message(role="system", content="One.Two.")
        assert conversation(messages(system="S"))[0].content == "S"
        assert len(conversation(messages(system=""))) == 1

    def test_the_billing_header_is_dropped(self) -> None:
        billing = text("x-anthropic-billing-header: cc_version=2.1; cch=1b2f")
        assert conversation(messages(system=[billing, text("S")]))[0].content == "S"
        assert len(conversation(messages(system=[billing]))) == 1

    def test_inline_system_messages_stay_in_place(self) -> None:
        """B49: hoisting them would change the prompt's beginning in the middle of a session."""
        history = [*USER, {"role": "assistant", "content": "A"}, {"role": "system", "content": [text("Z")]}, *USER]
        assert [message.role for message in conversation(messages(messages=history))] == [
            "user",
            "assistant",
            "system",
            "user",
        ]

    def test_users_texts_and_images(self) -> None:
        assert one("user", text("a")) == [Message(role="user", content="a")]
        by_url = {"type": "image", "source": {"type": "url", "url": "http://x/1.png"}}
        assert one("user", text("a"), IMAGE, by_url)[0].content == [
            Text("a"),
            Media("image", "data:image/png;base64,QUJD", param="messages[1].content[1].source.data"),
            Media("image", "http://x/1.png", param="messages[1].content[2].source.url"),
        ]

    def test_an_image_without_a_kind_is_a_jpeg(self) -> None:
        image = {"type": "image", "source": {"type": "base64", "data": "QUJD"}}
        ((part,),) = [message.content or [] for message in one("user", image)]
        assert isinstance(part, Media)
        assert part.url == "data:image/jpeg;base64,QUJD"

    def test_results_come_before_the_users_text(self) -> None:
        result = {"type": "tool_result", "tool_use_id": "t1", "content": [text("r1"), IMAGE, text("r2")]}
        second = {"type": "tool_result", "tool_use_id": "t2", "is_error": True}
        assert one("user", text("before"), result, text("after"), second) == [
            Message(role="tool", content="r1\nr2", tool_call_id="t1"),
            Message(role="tool", content="", tool_call_id="t2"),
            Message(
                role="user",
                content=[
                    Media("image", "data:image/png;base64,QUJD", param="messages[1].content[1].content[1].source.data")
                ],
            ),
            Message(role="user", content=[Text("before"), Text("after")]),
        ]

    def test_a_result_can_name_tools(self) -> None:
        content = [{"type": "tool_reference", "tool_name": "tide"}, {"type": "tool_reference", "tool_name": "moon"}]
        assert one("user", {"type": "tool_result", "tool_use_id": "t", "content": content}) == [
            Message(role="tool", content="", tool_call_id="t"),
            Message(role="tool", content="tide\nmoon", tool_call_id="t"),
        ]

    def test_an_assistants_turn(self) -> None:
        use = {"type": "tool_use", "id": "t1", "name": "tide", "input": {"port": "Århus", "n": 1.0}}
        (message,) = one(
            "assistant",
            {"type": "thinking", "thinking": "A", "signature": "x"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "thinking", "thinking": "B", "signature": "x"},
            text("Looking."),
            use,
        )
        assert message == Message(
            role="assistant",
            content="Looking.",
            reasoning="AB",
            tool_calls=[ToolCall("tide", '{"port": "Århus", "n": 1.0}', "t1")],
        )
        assert json.loads(message.tool_calls[0].arguments) == use["input"]

    def test_an_assistant_can_quote_a_result(self) -> None:
        quoted = {"type": "tool_result", "tool_use_id": "t", "content": "4"}
        assert one("assistant", quoted)[0].content == "Tool result: 4"

    def test_an_empty_message_of_the_user_disappears(self) -> None:
        assert one("user") == []
        refused(messages, "messages", messages=[{"role": "user", "content": []}])
        refused(messages, "messages", messages=[])

    @pytest.mark.parametrize(
        ("role", "block", "where"),
        [
            ("user", {"type": "zap"}, ".type"),
            ("user", {}, ".type"),
            ("user", {"type": "document", "source": {}}, ".type"),
            ("user", {"type": "thinking", "thinking": "x"}, ".type"),
            ("user", {"type": "tool_use", "id": "t", "name": "f", "input": {}}, ".type"),
            ("user", {"type": "text"}, ".text"),
            ("user", {"type": "image"}, ".source"),
            ("user", {"type": "image", "source": {"type": "file", "file_id": "f"}}, ".source.type"),
            ("user", {"type": "image", "source": {"type": "zap"}}, ".source.type"),
            ("user", {"type": "image", "source": {"type": "base64"}}, ".source.data"),
            ("user", {"type": "image", "source": {"type": "url"}}, ".source.url"),
            ("user", {"type": "tool_result"}, ".tool_use_id"),
            ("user", {"type": "tool_result", "tool_use_id": "t", "content": 3}, ".content"),
            ("user", {"type": "tool_result", "tool_use_id": "t", "content": [3]}, ".content[0]"),
            ("user", {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "zap"}]}, ".content[0].type"),
            ("assistant", {"type": "tool_use", "name": "f", "input": {}}, ".id"),
            ("assistant", {"type": "tool_use", "id": "t", "input": {}}, ".name"),
            ("assistant", {"type": "tool_use", "id": "t", "name": "f", "input": "{}"}, ".input"),
            ("assistant", {"type": "thinking"}, ".thinking"),
            ("assistant", {"type": "server_tool_use"}, ".type"),
            ("system", {"type": "image"}, ".type"),
        ],
    )
    def test_a_wrong_block_is_named(self, role: str, block: dict[str, object], where: str) -> None:
        refused(messages, f"messages[1].content[0]{where}", messages=[*USER, {"role": role, "content": [block]}])

    def test_a_wrong_role_is_named(self) -> None:
        refused(messages, "messages[0].role", messages=[{"role": "tool", "content": "x"}])


class TestTools:
    def names(self, *history: object, tools: list[dict[str, object]]) -> list[str]:
        given = messages(messages=[*USER, *history], tools=tools)
        assert given.conversation is not None
        return [tool.name for tool in given.conversation.tools or []]

    def change(self, kind: str, name: str) -> dict[str, object]:
        block = {"type": kind, "tool": {"type": "tool_reference", "name": name}}
        return {"role": "system", "content": [block]}

    def test_a_schema_is_an_objects(self) -> None:
        given = messages(tools=[TIDE])
        assert given.conversation is not None
        ((tool),) = given.conversation.tools or []
        assert tool.parameters == {"properties": {}, "type": "object"}
        assert given.tool_choice == "auto"

    def test_choices(self) -> None:
        def choice(type: str, **more: object) -> object:
            return messages(tools=[TIDE], tool_choice={"type": type, **more}).tool_choice

        assert (choice("auto"), choice("any"), choice("none")) == ("auto", "required", "none")
        assert choice("tool", name="tide") == NamedTool("tide")
        assert messages().tool_choice is None
        assert messages(tools=[]).tool_choice == "auto"
        assert messages(tool_choice={"type": "any"}).tool_choice == "required"

    def test_parallel_calls_can_be_switched_off(self) -> None:
        assert messages(tools=[TIDE]).parallel_tool_calls
        choice = {"type": "auto", "disable_parallel_tool_use": True}
        assert not messages(tools=[TIDE], tool_choice=choice).parallel_tool_calls

    @pytest.mark.parametrize(
        ("choice", "param"),
        [
            ({"type": "zap"}, "tool_choice.type"),
            ({"type": "tool"}, "tool_choice.name"),
            ({"type": "tool", "name": "sun"}, "tool_choice"),
        ],
    )
    def test_a_choice_is_honoured_or_refused(self, choice: object, param: str) -> None:
        """B33."""
        refused(messages, param, tools=[TIDE], tool_choice=choice)

    def test_wrong_tools(self) -> None:
        refused(messages, "tools[1].input_schema", tools=[TIDE, {"name": "x"}])
        refused(messages, "tools[0].type", tools=[{"type": "bash_20250124", "name": "bash"}])
        refused(messages, "tools", Model(tool_format=None), tools=[TIDE])

    def test_deferred_tools_come_and_go(self) -> None:
        tools = [TIDE, MOON]
        assert self.names(tools=tools) == ["tide", "moon"]
        assert self.names(self.change("tool_addition", "moon"), tools=tools) == ["tide", "moon"]
        assert self.names(self.change("tool_removal", "tide"), tools=tools) == []
        both = (self.change("tool_addition", "moon"), self.change("tool_removal", "tide"))
        assert self.names(*both, tools=tools) == ["moon"]
        wrong = [*USER, self.change("tool_addition", "sun")]
        refused(messages, "messages[1].content[0].tool", messages=wrong, tools=tools)
        user = [{**self.change("tool_addition", "moon"), "role": "user"}]
        refused(messages, "messages[0].content[0].type", messages=user)


class TestThinking:
    def test_disabled_is_no_effort(self) -> None:
        template = messages(thinking={"type": "disabled"}, output_config={"effort": "high"}).template
        assert template.reasoning_effort == "none"

    def test_adaptive_asks_for_nothing(self) -> None:
        given = messages(thinking={"type": "adaptive"}, output_config={"effort": "max"})
        assert given.template.reasoning_effort == "max"
        assert given.sampling.thinking_token_budget is None

    def test_enabled_has_a_budget(self) -> None:
        served = Model(max_model_len=10_000)
        given = messages(served, max_tokens=5000, thinking={"type": "enabled", "budget_tokens": 4999})
        assert given.sampling.thinking_token_budget == 4999
        assert given.template.reasoning_effort is None

    @pytest.mark.parametrize("budget", [None, 1023, 5000])
    def test_a_budget_is_enough_and_leaves_room(self, budget: int | None) -> None:
        served, thinking = Model(max_model_len=10_000), {"type": "enabled", "budget_tokens": budget}
        refused(messages, "thinking.budget_tokens", served, max_tokens=5000, thinking=thinking)

    def test_a_prefill_generates_one_token_only(self) -> None:
        thinking = {"type": "enabled", "budget_tokens": 2048}
        given = messages(max_tokens=1, thinking=thinking, kv_transfer_params={"do_remote_decode": True})
        assert given.sampling.thinking_token_budget == 2048

    def test_other_kinds(self) -> None:
        refused(messages, "thinking.type", thinking={"type": "zap"})
        refused(messages, "output_config.effort", output_config={"effort": "vast"})


def test_output_formats() -> None:
    schema = {"type": "object"}
    given = messages(output_config={"format": {"type": "json_schema", "schema": schema}})
    assert given.sampling.structured_outputs == StructuredOutputs(json=schema)
    refused(messages, "output_config.format.type", output_config={"format": {"type": "xml"}})
    refused(messages, "output_config.format.schema", output_config={"format": {"type": "json_schema"}})


def test_sampling() -> None:
    sampling = messages(stop_sequences=["X"], temperature=0.5, top_p=0.6, top_k=7).sampling
    assert (sampling.stop, sampling.temperature, sampling.top_p, sampling.top_k) == (["X"], 0.5, 0.6, 7)
    refused(messages, "stop_sequences", stop_sequences=["1", "2", "3", "4", "5"])
    refused(messages, "stop_sequences", stop_sequences=[""])
    refused(messages, "max_tokens", max_tokens=0)
    refused(messages, "temperature", temperature=-1)


def test_a_stream_reports_usage_throughout() -> None:
    options = messages(stream=True).stream_options
    assert options is not None
    assert (options.include_usage, options.continuous_usage_stats) == (True, True)
    assert messages().stream_options is None


def test_a_last_message_of_the_assistant_is_not_continued() -> None:
    """B57: as in the other dialects, and as vLLM does it."""
    template = messages(messages=[*USER, {"role": "assistant", "content": "One,"}]).template
    assert (template.add_generation_prompt, template.continue_final_message) == (True, False)


def test_counting_needs_no_limit() -> None:
    request = msgspec.convert({"model": "small", "messages": USER, "system": "S"}, CountTokensRequest)
    given = read_for_counting(request, model=MODEL)
    assert conversation(given) == conversation(messages(system="S"))
