import json

import msgspec
import pytest

from app.errors import Unsupported
from app.protocol.responses import RESPONSES_EXAMPLE, ResponsesRequest
from app.rendering.conversation import Media, Message, Text, ToolCall
from app.rendering.request import NamedTool
from tests.unit.dialects.bodies import Model, conversation, refused, responses

USER = {"role": "user", "content": "x"}
CALL = {"type": "function_call", "call_id": "c1", "name": "tide", "arguments": '{"port":"Oslo"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "high"}
TIDE = {"type": "function", "name": "tide", "parameters": {"type": "object"}, "strict": True}


def reasoning(text: str, **more: object) -> dict[str, object]:
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}], **more}


def said(*texts: str, **more: object) -> dict[str, object]:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []} for text in texts]
    return {"type": "message", "role": "assistant", "content": content, "status": "completed", **more}


def test_the_example_is_read() -> None:
    given = responses(**RESPONSES_EXAMPLE)
    assert conversation(given) == [
        Message(role="system", content="Answer in one sentence."),
        Message(role="user", content="What is the capital of France?"),
    ]


def test_ids() -> None:
    assert responses(request_id="resp_mine").request_id == "resp_mine"
    assert len(responses().request_id) == len("resp_") + 16


class TestItems:
    def test_a_text_is_one_user_message(self) -> None:
        assert conversation(responses(input="hi")) == [Message(role="user", content="hi")]
        assert conversation(responses(input="")) == [Message(role="user", content="")]

    def test_one_turn_of_the_assistant_is_one_message(self) -> None:
        second = {"type": "function_call", "call_id": "c2", "name": "moon", "arguments": ""}
        items = [USER, reasoning("Hm."), said("Let me look."), CALL, second, OUTPUT, said("High."), USER]
        assert conversation(responses(*items)) == [
            Message(role="user", content="x"),
            Message(
                role="assistant",
                content="Let me look.",
                reasoning="Hm.",
                tool_calls=[ToolCall("tide", '{"port":"Oslo"}', "c1"), ToolCall("moon", "", "c2")],
            ),
            Message(role="tool", content="high", tool_call_id="c1"),
            Message(role="assistant", content="High."),
            Message(role="user", content="x"),
        ]

    def test_a_second_text_or_thought_begins_a_message(self) -> None:
        assert [m.content for m in conversation(responses(USER, said("a"), said("b")))] == ["x", "a", "b"]
        thoughts = conversation(responses(USER, reasoning("a"), reasoning("b"), said("c")))
        assert [(m.reasoning, m.content) for m in thoughts[1:]] == [("a", None), ("b", "c")]

    def test_a_call_before_the_text_belongs_to_it(self) -> None:
        (_, message) = conversation(responses(USER, CALL, said("Done.")))
        assert (message.content, len(message.tool_calls)) == ("Done.", 1)

    def test_nothing_is_lost_of_several_texts(self) -> None:
        (_, message) = conversation(responses(USER, said("a", "b")))
        assert message.content == [Text("a"), Text("b")]

    def test_fields_that_clients_leave_out(self) -> None:
        """B63: no type, id or status; an empty message of the assistant."""
        items = [USER, {"role": "assistant", "content": []}, CALL, OUTPUT]
        assert [(m.role, m.content) for m in conversation(responses(*items))] == [
            ("user", "x"),
            ("assistant", None),
            ("tool", "high"),
        ]
        assert len(conversation(responses(USER, {"type": "message", "role": "assistant", "content": []}))) == 1
        assert conversation(responses(USER, {"role": "assistant", "content": None}, OUTPUT))[1].role == "tool"

    def test_an_empty_message_keeps_the_turns(self) -> None:
        silent = {"role": "assistant", "content": []}
        assert [(m.role, m.content) for m in conversation(responses(USER, silent, USER))] == [
            ("user", "x"),
            ("assistant", ""),
            ("user", "x"),
        ]

    def test_our_own_output_is_input(self) -> None:
        """B64: every kind of item that a reply has, as it is sent."""
        output = [
            {"id": "rs_1", **reasoning("Hm.", encrypted_content=None, status="completed")},
            {"id": "msg_1", "phase": "final_answer", **said("Yes.")},
            {"id": "fc_1", "status": "completed", "namespace": None, **CALL},
            {
                "id": "ctc_1",
                "type": "custom_tool_call",
                "call_id": "c2",
                "name": "note",
                "input": "ü",
                "status": "completed",
            },
        ]
        message = conversation(responses(USER, *output))[1]
        assert (message.reasoning, message.content) == ("Hm.", "Yes.")
        assert [call.name for call in message.tool_calls] == ["tide", "note"]
        assert json.loads(message.tool_calls[1].arguments) == {"input": "ü"}
        refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
        assert conversation(responses(USER, refusal))[1].content == "No."

    def test_summaries_stand_for_reasoning_that_is_not_there(self) -> None:
        summary = [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]
        item = {"type": "reasoning", "id": "rs_1", "summary": summary}
        assert conversation(responses(USER, item, said("c")))[1].reasoning == "a\n\nb"
        full = {**item, "content": [{"type": "reasoning_text", "text": "whole"}], "encrypted_content": "gAAA"}
        assert conversation(responses(USER, full))[1].reasoning == "whole"

    def test_reasoning_without_a_text_shows_nothing(self) -> None:
        assert len(conversation(responses(USER, {"type": "reasoning", "summary": [], "encrypted_content": None}))) == 1
        closed = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
        refused(responses, "input[1].encrypted_content", USER, closed)

    def test_parts(self) -> None:
        content = [
            {"type": "input_text", "text": "a"},
            {"type": "input_image", "image_url": "http://x/1.png", "detail": "auto"},
            {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
        ]
        (message,) = conversation(responses({"role": "user", "content": content}))
        assert message.content == [
            Text("a"),
            Media("image", "http://x/1.png", None, "auto", param="input[0].content[1].image_url"),
            Media("audio", "data:audio/wav;base64,QUJD", param="input[0].content[2].input_audio"),
        ]
        shown = {**OUTPUT, "output": [content[0], content[1]]}
        assert conversation(responses(USER, CALL, shown))[2].content == [
            Text("a"),
            Media("image", "http://x/1.png", None, "auto", param="input[2].output[1].image_url"),
        ]

    def test_items_of_others_are_not_shown(self) -> None:
        search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
        mine = {"type": "acme:telemetry", "id": "x", "data": 1}
        assert conversation(responses(search, USER, mine)) == [Message(role="user", content="x")]

    @pytest.mark.parametrize(
        ("item", "where"),
        [
            ({"type": "spaceship"}, ".type"),
            ({"type": 7}, ".type"),
            ({}, ".type"),
            ({"id": "msg_1"}, ".type"),
            ({"type": "item_reference", "id": "msg_1"}, ".type"),
            ({"type": "compaction", "encrypted_content": "x"}, ".type"),
            ({"role": "wizard", "content": "x"}, ".role"),
            ({"type": "message", "content": "x"}, ".role"),
            ({"role": "user"}, ".content"),
            ({"role": "user", "content": 3}, ".content"),
            ({"role": "user", "content": ["x"]}, ".content[0]"),
            ({"role": "user", "content": [{"type": "zap"}]}, ".content[0].type"),
            ({"role": "user", "content": [{"text": "x"}]}, ".content[0].type"),
            ({"role": "user", "content": [{"type": "input_text"}]}, ".content[0].text"),
            ({"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}, ".content[0].type"),
            ({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}, ".content[0].file_id"),
            ({"type": "function_call", "arguments": "{}"}, ".name"),
            ({"type": "function_call", "name": "f", "arguments": 3}, ".arguments"),
            ({"type": "custom_tool_call", "name": "f"}, ".input"),
            ({"type": "function_call_output", "output": 3}, ".output"),
            ({"type": "reasoning", "content": "x"}, ".content"),
            ({"type": "reasoning", "summary": [{"type": "input_image", "image_url": "x"}]}, ".summary[0].type"),
        ],
    )
    def test_a_wrong_item_is_named(self, item: dict[str, object], where: str) -> None:
        refused(responses, f"input[1]{where}", USER, item)

    def test_nothing_to_answer(self) -> None:
        refused(responses, "input", input=[])
        refused(responses, "input", {"role": "assistant", "content": []})

    def test_decoding_names_the_place(self) -> None:
        with pytest.raises(msgspec.ValidationError, match=r"\$.input\[1\]"):
            responses(USER, 3)


class TestContinuation:
    @pytest.mark.parametrize("status", ["in_progress", "incomplete"])
    def test_an_unfinished_last_item_is_continued(self, status: str) -> None:
        for last in (said("One,", status=status), reasoning("Hm", status=status)):
            template = responses(USER, last).template
            assert (template.add_generation_prompt, template.continue_final_message) == (False, True)

    def test_others_are_not(self) -> None:
        unfinished = said("One,", status="in_progress")
        for items in (
            [USER, said("One,")],
            [USER, unfinished, USER],
            [USER, {**CALL, "status": "in_progress"}],
            [USER, {"role": "assistant", "content": [], "status": "incomplete"}],
            [USER, {"type": "reasoning", "summary": [], "status": "in_progress"}],
        ):
            template = responses(*items).template
            assert (template.add_generation_prompt, template.continue_final_message) == (True, False)


class TestTools:
    def tools(self, *tools: object, served: Model = Model(), **body: object) -> list[tuple[str, object]]:
        given = responses(served=served, tools=list(tools), **body)
        assert given.conversation is not None
        return [(tool.name, tool.parameters) for tool in given.conversation.tools or []]

    def test_functions(self) -> None:
        """B66: flat or in the form of chat completions, they become the same."""
        nested = {"type": "function", "function": {"name": "tide", "parameters": {"type": "object"}, "strict": True}}
        assert self.tools(TIDE) == self.tools(nested) == [("tide", {"type": "object"})]

    def test_custom_tools_have_one_text(self) -> None:
        ((name, parameters),) = self.tools({"type": "custom", "name": "note", "format": {"type": "text"}})
        assert name == "note"
        assert isinstance(parameters, dict)
        assert parameters["required"] == ["input"]
        grammar = {"type": "custom", "name": "note", "format": {"type": "grammar", "syntax": "lark"}}
        refused(responses, "tools[0].format", tools=[grammar])

    def test_namespaces_are_flattened(self) -> None:
        sea = {"type": "namespace", "name": "sea", "tools": [TIDE, {"type": "custom", "name": "note"}]}
        assert [name for name, _ in self.tools(sea)] == ["sea__tide", "sea__note"]
        call = conversation(responses(USER, {**CALL, "namespace": "sea"}))[1].tool_calls[0]
        assert call.name == "sea__tide"
        choice = {"type": "function", "name": "tide", "namespace": "sea"}
        assert responses(tools=[sea], tool_choice=choice).tool_choice == NamedTool("sea__tide")
        assert responses(tools=[sea], tool_choice={"type": "function", "name": "tide"}).tool_choice == NamedTool(
            "sea__tide"
        )
        air = {"type": "namespace", "name": "air", "tools": [TIDE]}
        two = {"tools": [sea, air], "tool_choice": {"type": "function", "name": "tide"}}
        refused(responses, "tool_choice.name", **two)

    def test_tools_that_openai_runs_are_left_out(self) -> None:
        hosted = [
            {"type": "web_search"},
            {"type": "web_search_preview_2025_03_11"},
            {"type": "mcp", "server_label": "x"},
        ]
        assert self.tools(*hosted) == []
        assert responses(tools=hosted).tool_choice == "none"
        assert self.tools(*hosted, served=Model(tool_format=None)) == []

    @pytest.mark.parametrize(
        ("tool", "param"),
        [
            ({"type": "zap"}, "tools[0].type"),
            ({}, "tools[0].type"),
            ({"type": "function"}, "tools[0].name"),
            ({"type": "function", "name": "f", "parameters": []}, "tools[0].parameters"),
            ({"type": "function", "name": "f", "description": 3}, "tools[0].description"),
            ({"type": "function", "name": "f", "strict": "yes"}, "tools[0].strict"),
            ({"type": "namespace", "name": "n"}, "tools[0].tools"),
            ({"type": "namespace", "name": "n", "tools": [{"type": "function"}]}, "tools[0].tools[0].name"),
            ({"type": "namespace", "name": "n", "tools": [3]}, "tools[0].tools[0]"),
        ],
    )
    def test_wrong_tools(self, tool: dict[str, object], param: str) -> None:
        refused(responses, param, tools=[tool])

    def test_choices(self) -> None:
        assert responses().tool_choice == "none"
        assert responses(tools=[]).tool_choice == "none"
        assert responses(tools=[TIDE]).tool_choice == "auto"
        assert responses(tools=[TIDE], tool_choice=None).tool_choice == "auto"
        assert responses(tools=[TIDE], tool_choice="required").tool_choice == "required"
        assert responses(tools=[TIDE], tool_choice="none").tool_choice == "none"
        custom = {"tools": [{"type": "custom", "name": "note"}], "tool_choice": {"type": "custom", "name": "note"}}
        assert responses(**custom).tool_choice == NamedTool("note")

    def test_allowed_tools_narrow(self) -> None:
        moon = {"type": "function", "name": "moon"}
        allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "moon"}]}
        given = responses(tools=[TIDE, moon], tool_choice=allowed)
        assert given.tool_choice == "required"
        assert given.conversation is not None
        assert [tool.name for tool in given.conversation.tools or []] == ["moon"]
        nothing = {"type": "allowed_tools", "mode": "auto", "tools": []}
        assert responses(tools=[TIDE], tool_choice=nothing).tool_choice == "none"

    @pytest.mark.parametrize(
        ("choice", "param"),
        [
            ("zap", "tool_choice"),
            ({"type": "zap"}, "tool_choice.type"),
            ({"type": "web_search"}, "tool_choice.type"),
            ({"type": "function"}, "tool_choice.name"),
            ({"type": "function", "name": "sun"}, "tool_choice.name"),
            ({"type": "allowed_tools", "mode": "x", "tools": []}, "tool_choice.mode"),
            ({"type": "allowed_tools", "mode": "auto"}, "tool_choice.tools"),
            ({"type": "allowed_tools", "mode": "auto", "tools": [3]}, "tool_choice.tools[0]"),
            ({"type": "allowed_tools", "mode": "required", "tools": []}, "tool_choice"),
        ],
    )
    def test_a_choice_is_honoured_or_refused(self, choice: object, param: str) -> None:
        """B33."""
        refused(responses, param, tools=[TIDE], tool_choice=choice)

    def test_required_needs_a_function(self) -> None:
        refused(responses, "tool_choice", tool_choice="required")
        refused(responses, "tool_choice", tool_choice="required", tools=[{"type": "web_search"}])

    def test_a_model_without_a_format(self) -> None:
        refused(responses, "tools", served=Model(tool_format=None), tools=[TIDE])


class TestState:
    HISTORY = [{"role": "user", "content": "Hi, I am Io."}, said("Hello Io."), CALL]

    def test_without_a_store_nothing_is_ignored(self) -> None:
        assert isinstance(refused(responses, "previous_response_id", previous_response_id="resp_1"), Unsupported)
        refused(responses, "conversation", conversation="conv_1")
        refused(responses, "conversation", conversation={"id": "conv_1"})
        refused(responses, "previous_input_messages", previous_input_messages=[USER])
        refused(responses, "prompt", prompt={"id": "pmpt_1"})

    def test_history_comes_before_the_input(self) -> None:
        given = responses(OUTPUT, history=self.HISTORY, previous_response_id="resp_1", instructions="Short.")
        assert [message.role for message in conversation(given)] == ["system", "user", "assistant", "tool"]

    def test_refusals_count_from_the_input(self) -> None:
        refused(responses, "input[0].type", {"type": "zap"}, history=self.HISTORY)

    def test_one_of_both(self) -> None:
        both = {"previous_response_id": "resp_1", "conversation": "conv_1"}
        refused(responses, "previous_response_id", history=[], **both)

    def test_background_needs_a_store(self) -> None:
        refused(responses, "background", background=True, store=False)
        assert not responses(background=True).stream


class TestFields:
    def test_sampling(self) -> None:
        sampling = responses(max_output_tokens=9, top_logprobs=3, stop="X", seed=4, vllm_xargs={"a": 1}).sampling
        assert (sampling.max_tokens, sampling.logprobs, sampling.stop, sampling.seed) == (9, None, ["X"], 4)
        assert sampling.extra_args == {"a": 1}
        assert responses().sampling.extra_args == {}
        include = ["message.output_text.logprobs"]
        assert responses(top_logprobs=3, include=include).sampling.logprobs == 3
        assert responses(include=include).sampling.logprobs == 0

    def test_wrong_values(self) -> None:
        refused(responses, "max_output_tokens", max_output_tokens=0)
        refused(responses, "max_output_tokens", max_output_tokens=1001)
        refused(responses, "include[1]", include=["reasoning.encrypted_content", "zap"])
        refused(responses, "truncation", truncation="some")
        refused(responses, "reasoning.effort", reasoning={"effort": "vast"})
        refused(responses, "metadata", metadata={"k" * 65: "v"})
        refused(responses, "metadata", metadata={"k": "v" * 513})
        refused(responses, "metadata", metadata={str(n): "" for n in range(17)})
        refused(responses, "max_tool_calls", max_tool_calls=0)
        refused(responses, "top_logprobs", top_logprobs=-2, include=["message.output_text.logprobs"])

    def test_truncation_drops_items(self) -> None:
        assert responses(truncation="auto").template.drop_oldest_items
        assert not responses(truncation="disabled").template.drop_oldest_items
        assert not responses(truncation=None).template.drop_oldest_items

    def test_effort(self) -> None:
        assert responses(reasoning={"effort": "low", "summary": "auto"}).template.reasoning_effort == "low"

    def test_null_is_not_given(self) -> None:
        names = [name for name in ResponsesRequest.__struct_fields__ if name != "input"]
        given, plain = responses(**dict.fromkeys(names, None)), responses()
        assert msgspec.structs.replace(given, request_id="") == msgspec.structs.replace(plain, request_id="")
