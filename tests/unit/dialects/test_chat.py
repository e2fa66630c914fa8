import msgspec
import pytest

from app.errors import Unsupported
from app.protocol.chat import CHAT_EXAMPLE, ChatRequest
from app.rendering.conversation import Media, Message, Text, ToolCall
from app.rendering.request import NamedTool
from tests.unit.dialects.bodies import Model, chat, conversation, refused

TOOL = {"type": "function", "function": {"name": "tide", "parameters": {"type": "object", "properties": {}}}}
OTHER = {"type": "function", "function": {"name": "moon", "description": "Its phase.", "strict": True}}


def test_the_example_is_read() -> None:
    given = chat(**CHAT_EXAMPLE)
    assert [message.role for message in conversation(given)] == ["system", "user"]
    assert given.sampling.max_tokens == 32


def test_unknown_fields_are_ignored() -> None:
    assert chat(guided_json={"a": 1}, shiny=True).conversation == chat().conversation


def test_ids_come_from_the_header_then_the_body_then_chance() -> None:
    assert chat(header="from-header", request_id="from-body").request_id == "chatcmpl-from-header"
    assert chat(request_id="from-body").request_id == "chatcmpl-from-body"
    first, second = chat().request_id, chat().request_id
    assert first != second
    assert len(first.removeprefix("chatcmpl-")) == 16


class TestMessages:
    def test_parts_become_texts_and_media(self) -> None:
        content = [
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
            {"type": "input_text", "text": "b"},
            {"type": "refusal", "refusal": "c"},
            {"type": "thinking", "thinking": "d"},
            {"text": "no type"},
            {"type": "image_url", "image_url": {"url": "http://x/1.png", "detail": "low"}, "uuid": "u1"},
            {"type": "image_url", "image_url": "http://x/2.png"},
            {"type": "input_image", "image_url": "http://x/3.png", "detail": "high"},
            {"type": "video_url", "video_url": {"url": "http://x/4.mp4"}},
            {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}},
            {"image_url": None, "uuid": "cached"},
        ]
        (message,) = conversation(chat(messages=[{"role": "user", "content": content}]))
        assert message.content == [
            Text("a", {"cache_control": {"type": "ephemeral"}}),
            Text("b"),
            Text("c"),
            Text("d"),
            Text("no type"),
            Media("image", "http://x/1.png", "u1", "low", param="messages[0].content[5].image_url.url"),
            Media("image", "http://x/2.png", param="messages[0].content[6].image_url"),
            Media("image", "http://x/3.png", None, "high", param="messages[0].content[7].image_url"),
            Media("video", "http://x/4.mp4", param="messages[0].content[8].video_url.url"),
            Media("audio", "data:audio/mp3;base64,QUJD", param="messages[0].content[9].input_audio"),
            Media("image", None, "cached", param="messages[0].content[10].image_url"),
        ]

    @pytest.mark.parametrize(
        ("part", "where"),
        [
            ({"type": "zap"}, ".type"),
            ({"type": 3}, ".type"),
            ({}, ".type"),
            ({"type": "text", "text": None}, ".text"),
            ({"type": "text"}, ".text"),
            ({"type": "image_url", "image_url": {"url": 1}}, ".image_url.url"),
            ({"type": "image_url", "image_url": ""}, ".image_url"),
            ({"type": "image_url"}, ".image_url"),
            ({"type": "input_image", "file_id": "f"}, ".file_id"),
            ({"type": "input_audio", "input_audio": {"format": "wav"}}, ".input_audio.data"),
            ({"type": "image_url", "image_url": "x", "uuid": 1}, ".uuid"),
            ({"type": "image_url", "image_url": "x", "detail": 1}, ".detail"),
            ({"type": "file", "file": {}}, ".type"),
            ({"type": "image_embeds", "image_embeds": "x"}, ".type"),
        ],
    )
    def test_a_wrong_part_is_named(self, part: dict[str, object], where: str) -> None:
        content = [{"type": "text", "text": "x"}, part]
        refused(chat, f"messages[1].content[1]{where}", messages=[*USER, {"role": "user", "content": content}])

    def test_decoding_names_the_place(self) -> None:
        with pytest.raises(msgspec.ValidationError, match=r"\$.messages\[0\].content\[1\]"):
            chat(messages=[{"role": "user", "content": [{"type": "text", "text": "x"}, "bare"]}])
        with pytest.raises(msgspec.ValidationError, match="role"):
            chat(messages=[{"content": "x"}])

    def test_null_content_is_for_the_assistant(self) -> None:
        calls = [{"id": "1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}]
        history = [*USER, {"role": "assistant", "content": None, "tool_calls": calls}]
        assert conversation(chat(messages=history))[1].content is None
        assert conversation(chat(messages=[{"role": "assistant"}]))[0].content is None
        for role in ("user", "system", "tool", "wizard"):
            refused(chat, "messages[0].content", messages=[{"role": role, "content": None}])

    def test_arguments_stay_as_written(self) -> None:
        """B5, B6: text is decoded by the renderer where the template wants a mapping, broken text does no harm."""
        written = ['{"city":"Paris"}', '{"code": "abc', "", None, {"city": "Zürich"}]
        calls = [{"function": {"name": "f", "arguments": arguments}} for arguments in written]
        message = conversation(chat(messages=[{"role": "assistant", "tool_calls": calls}]))[0]
        assert [call.arguments for call in message.tool_calls] == [*written[:3], "", '{"city": "Zürich"}']

    def test_calls_are_functions(self) -> None:
        def history(call: dict[str, object]) -> list[dict[str, object]]:
            return [{"role": "assistant", "tool_calls": [call]}]

        refused(chat, "messages[0].tool_calls[0].type", messages=history({"type": "custom", "function": {"name": "f"}}))
        refused(chat, "messages[0].tool_calls[0].function", messages=history({"type": "function"}))

    def test_the_rest_of_a_message_is_kept(self) -> None:
        messages = [
            {"role": "developer", "content": "D", "tools": [{"a": 1}], "task": "t", "dropped": 1},
            {"role": "user", "content": "x", "name": "Io"},
            {"role": "assistant", "reasoning_content": "old", "content": "A"},
            {"role": "assistant", "reasoning": "new", "reasoning_content": "old", "content": "B", "tool_calls": []},
            {"role": "tool", "tool_call_id": "7", "content": [{"type": "text", "text": "4 °C"}]},
        ]
        assert conversation(chat(messages=messages)) == [
            Message(role="developer", content="D", extra={"tools": [{"a": 1}], "task": "t"}),
            Message(role="user", content="x", name="Io"),
            Message(role="assistant", content="A", reasoning="old"),
            Message(role="assistant", content="B", reasoning="new"),
            Message(role="tool", content=[Text("4 °C")], tool_call_id="7"),
        ]

    def test_no_messages_are_refused(self) -> None:
        refused(chat, "messages", messages=[])

    def test_calls_have_ids(self) -> None:
        call = {"id": "call_9", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
        (message,) = conversation(chat(messages=[{"role": "assistant", "content": "", "tool_calls": [call]}]))
        assert message.tool_calls == [ToolCall("tide", "{}", "call_9")]
        assert message.content == ""


class TestFinalMessage:
    """B57: a last message of the assistant is continued only where that is asked for."""

    HISTORY = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "One,"}]

    def test_a_new_turn_is_opened_by_default(self) -> None:
        template = chat(messages=self.HISTORY).template
        assert (template.add_generation_prompt, template.continue_final_message) == (True, False)

    def test_continuing_opens_none(self) -> None:
        template = chat(messages=self.HISTORY, continue_final_message=True).template
        assert (template.add_generation_prompt, template.continue_final_message) == (False, True)

    def test_both_are_refused(self) -> None:
        both = {"continue_final_message": True, "add_generation_prompt": True}
        refused(chat, "continue_final_message", messages=self.HISTORY, **both)

    def test_neither_is_possible(self) -> None:
        assert not chat(messages=self.HISTORY, add_generation_prompt=False).template.add_generation_prompt


class TestTools:
    def test_definitions_are_read(self) -> None:
        given = chat(tools=[TOOL, OTHER])
        assert given.conversation is not None
        tide, moon = given.conversation.tools or []
        assert (tide.name, tide.parameters, tide.strict) == ("tide", {"type": "object", "properties": {}}, None)
        assert (moon.description, moon.parameters, moon.strict) == ("Its phase.", None, True)

    def test_choices(self) -> None:
        assert chat().tool_choice == "none"
        assert chat(tools=[TOOL]).tool_choice == "auto"
        assert chat(tools=[TOOL], tool_choice="none").tool_choice == "none"
        assert chat(tool_choice="none").tool_choice == "none"
        assert chat(tools=[TOOL], tool_choice="required").tool_choice == "required"
        named = {"type": "function", "function": {"name": "moon"}}
        assert chat(tools=[TOOL, OTHER], tool_choice=named).tool_choice == NamedTool("moon")

    @pytest.mark.parametrize("choice", ["auto", "required", "zap", {"type": "function", "function": {"name": "tide"}}])
    def test_a_choice_needs_tools(self, choice: object) -> None:
        refused(chat, "tool_choice", tool_choice=choice)

    @pytest.mark.parametrize(
        ("choice", "param"),
        [
            ("zap", "tool_choice"),
            ({"type": "zap"}, "tool_choice"),
            ({}, "tool_choice"),
            ({"type": "function"}, "tool_choice.function"),
            ({"type": "function", "function": "tide"}, "tool_choice.function"),
            ({"type": "function", "function": {}}, "tool_choice.function.name"),
            ({"type": "function", "function": {"name": 1}}, "tool_choice.function.name"),
            ({"type": "function", "function": {"name": "sun"}}, "tool_choice"),
        ],
    )
    def test_a_choice_is_honoured_or_refused(self, choice: object, param: str) -> None:
        """B33: never quietly another choice."""
        refused(chat, param, tools=[TOOL], tool_choice=choice)

    def test_wrong_tools(self) -> None:
        refused(chat, "tools", tools=[])
        assert isinstance(refused(chat, "tools[1].type", tools=[TOOL, {"type": "custom"}]), Unsupported)
        refused(chat, "tools[0].function", tools=[{"type": "function"}])

    def test_a_model_without_a_format_takes_no_calls(self) -> None:
        plain = Model(tool_format=None)
        refused(chat, "tools", plain, tools=[TOOL])
        refused(chat, "tool_choice", plain, tools=[TOOL], tool_choice="required")
        assert chat(plain, tools=[TOOL], tool_choice="none").conversation is not None

    def test_a_named_tool_excludes_structured_outputs(self) -> None:
        named = {"type": "function", "function": {"name": "tide"}}
        refused(chat, "structured_outputs", tools=[TOOL], tool_choice=named, structured_outputs={"regex": "a"})


class TestSampling:
    def test_the_newer_limit_wins(self) -> None:
        sampling = chat(max_tokens=5, max_completion_tokens=7).sampling
        assert (sampling.max_tokens, sampling.max_tokens_param) == (7, "max_completion_tokens")
        refused(chat, "max_completion_tokens", max_completion_tokens=0)
        refused(chat, "max_tokens", max_tokens=1001)

    def test_logprobs(self) -> None:
        assert chat().sampling.logprobs is None
        assert chat(logprobs=True).sampling.logprobs == 0
        assert chat(logprobs=True, top_logprobs=None).sampling.logprobs == 0
        assert chat(logprobs=True, top_logprobs=-1).sampling.logprobs == -1
        asked = chat(logprobs=True, top_logprobs=4, logprob_token_ids=[1, 2]).sampling
        assert (asked.logprobs, asked.logprob_token_ids) == (None, [1, 2])
        refused(chat, "top_logprobs", top_logprobs=2)
        refused(chat, "top_logprobs", logprobs=True, top_logprobs=-2)
        refused(chat, "logprob_token_ids", logprob_token_ids=[1])

    def test_echo_asks_for_the_prompts_logprobs(self) -> None:
        assert chat(echo=True).sampling.prompt_logprobs == 0
        assert chat(echo=True, logprobs=True, top_logprobs=3).sampling.prompt_logprobs == 3
        assert chat(echo=True, prompt_logprobs=1).sampling.prompt_logprobs == 1

    def test_prompt_logprobs_are_not_streamed(self) -> None:
        refused(chat, "prompt_logprobs", prompt_logprobs=1, stream=True)
        refused(chat, "prompt_logprobs", prompt_logprobs=-1, stream=True)
        assert chat(prompt_logprobs=0, stream=True).sampling.prompt_logprobs == 0

    def test_null_is_not_given(self) -> None:
        names = [name for name in ChatRequest.__struct_fields__ if name != "messages"]
        given, plain = chat(**dict.fromkeys(names, None)), chat()
        assert msgspec.structs.replace(given, request_id="", conversation=None) == msgspec.structs.replace(
            plain, request_id="", conversation=None
        )

    def test_stop_is_one_or_several(self) -> None:
        assert chat(stop="END").sampling.stop == ["END"]
        assert chat(stop=["a", "b"]).sampling.stop == ["a", "b"]
        refused(chat, "stop", stop=["1", "2", "3", "4", "5"])

    def test_beam_search_is_refused(self) -> None:
        refused(chat, "use_beam_search", use_beam_search=True)

    def test_stream_options_need_a_stream(self) -> None:
        refused(chat, "stream_options", stream_options={"include_usage": True})
        options = chat(stream=True, stream_options={"include_usage": True}).stream_options
        assert options is not None
        assert (options.include_usage, options.continuous_usage_stats) == (True, False)


class TestRendering:
    def test_effort_is_a_known_word(self) -> None:
        assert chat(reasoning_effort="xhigh").template.reasoning_effort == "xhigh"
        refused(chat, "reasoning_effort", reasoning_effort="vast")

    def test_truncation(self) -> None:
        template = chat(truncate_prompt_tokens=-1, truncation_side="right").template
        assert (template.truncate_prompt_tokens, template.truncation_side) == (-1, "right")
        refused(chat, "truncate_prompt_tokens", truncate_prompt_tokens=-2)
        refused(chat, "truncation_side", truncation_side="middle")

    def test_payload(self) -> None:
        assert chat().template.mm_payload == "tensors"
        assert chat(mm_payload="none").template.mm_payload == "none"
        assert chat(return_mm_kwargs=False).template.mm_payload == "none"
        assert chat(return_mm_kwargs=False, mm_payload="tensors").template.mm_payload == "tensors"
        refused(chat, "mm_payload", mm_payload="zip")


USER = [{"role": "user", "content": "x"}]
