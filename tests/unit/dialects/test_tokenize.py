import msgspec
import pytest

from app.dialects.tokenize import read
from app.protocol.tokenize import DetokenizeRequest, TokenizeRequest
from app.rendering.request import RenderInput
from tests.unit.dialects.bodies import USER, conversation, refused

TOOL = {"type": "function", "function": {"name": "tide"}}


def tokenize(**body: object) -> RenderInput:
    return read(msgspec.convert(body, TokenizeRequest))


def test_text_gets_the_tokenizers_own_bos() -> None:
    given = tokenize(prompt="")
    assert (given.text, given.conversation, given.template.add_special_tokens) == ("", None, True)
    assert not tokenize(prompt="x", add_special_tokens=False).template.add_special_tokens


def test_a_conversation_has_its_templates() -> None:
    given = tokenize(messages=USER, tools=[TOOL], chat_template_kwargs={"a": 1})
    assert not given.template.add_special_tokens
    assert given.template.add_generation_prompt
    assert given.template.kwargs == {"a": 1}
    assert len(conversation(given)) == 1
    assert tokenize(messages=USER, add_special_tokens=True).template.add_special_tokens


def test_an_empty_list_of_tools_is_none() -> None:
    given = tokenize(messages=USER, tools=[])
    assert given.conversation is not None
    assert given.conversation.tools is None


def test_the_last_message_can_be_continued() -> None:
    template = tokenize(messages=USER, continue_final_message=True).template
    assert (template.add_generation_prompt, template.continue_final_message) == (False, True)
    both = {"add_generation_prompt": True, "continue_final_message": True}
    refused(tokenize, "continue_final_message", messages=USER, **both)


def test_one_of_the_two_is_given() -> None:
    refused(tokenize, "prompt")
    refused(tokenize, "prompt", prompt="x", messages=USER)


def test_ids_are_not_negative() -> None:
    for token in (-1, 2**63, "1", None):
        with pytest.raises(msgspec.ValidationError, match="tokens"):
            msgspec.convert({"tokens": [0, token]}, DetokenizeRequest)
