"""Media in a prompt, and prompts that are too long: what is cut, what is dropped, what is refused."""

from typing import Any

import pytest

from app.errors import InvalidRequest
from app.protocol.generate import Features, Placeholder
from app.rendering.conversation import Media, Message, Text, ToolCall
from app.rendering.media import MediaPrompt
from app.rendering.truncation import droppable, kept_ranges, shifted, without_oldest
from tests.unit.rendering.at_hand import CHATML, PARTS, ask, conversation, renderer, written

HELLO = conversation(("user", "hi"))


# -- media -----------------------------------------------------------------------------------------------------------


class Images:
    """One placeholder of three tokens for each image."""

    def placeholder(self, media: Media) -> str:
        return "<|image_pad|>"

    async def expand(self, media: Any, prompt: Any, options: Any) -> MediaPrompt:
        ids, places = [], []
        for token in prompt.ids:
            if token == 3:
                places.append(Placeholder(len(ids), 3))
            ids += [token] * (3 if token == 3 else 1)
        assert len(places) == len(media)
        return MediaPrompt(
            ids, None, Features(mm_hashes={"image": ["h"] * len(media)}, mm_placeholders={"image": places})
        )


IMAGE = Media("image", "data:,", param="messages[0].content[1]")


@pytest.mark.parametrize("template", [CHATML, PARTS])
def test_a_typed_placeholder_is_no_place_for_an_image(template: str) -> None:
    answer = ask(renderer(template, media=Images()), conversation(("user", [Text("what is <|image_pad|>?"), IMAGE])))
    assert answer.features is not None and len(answer.features.mm_placeholders["image"]) == 1
    assert answer.token_ids.count(3) == 3


def test_placeholders_of_a_string_template_stand_before_the_text() -> None:
    server = renderer(media=Images())
    text = server.tokenizer.decode(ask(server, conversation(("user", [Text("a"), IMAGE, Text("b")]))).token_ids)
    assert "user\n<|image_pad|><|image_pad|><|image_pad|>\na\nb<|im_end|>" in text


def test_text_models_take_no_media_and_no_media_options() -> None:
    with pytest.raises(InvalidRequest) as caught:
        ask(renderer(), conversation(("user", [Text("a"), IMAGE])))
    assert caught.value.param == IMAGE.param
    for field in ("mm_processor_kwargs", "media_io_kwargs"):
        with pytest.raises(InvalidRequest) as caught:
            ask(renderer(), HELLO, **{field: {"image": {"x": 1}}})
        assert caught.value.param == field


def test_a_cut_through_a_placeholder_is_refused() -> None:
    server = renderer(media=Images())
    what = conversation(("user", [IMAGE, Text("abcdefgh")]))
    length = len(ask(server, what, add_generation_prompt=False).token_ids)
    kept = ask(server, what, add_generation_prompt=False, truncate_prompt_tokens=length - 4)
    assert kept.features is not None
    place = kept.features.mm_placeholders["image"][0]
    assert kept.token_ids[place.offset : place.offset + place.length] == [3, 3, 3]
    for keep in (8, 12):
        with pytest.raises(InvalidRequest) as caught:
            ask(server, what, add_generation_prompt=False, truncate_prompt_tokens=keep)
        assert caught.value.param == "truncate_prompt_tokens"


# -- truncation ------------------------------------------------------------------------------------------------------


def test_tokens_go_from_the_asked_side_and_offsets_with_them() -> None:
    server = renderer("{{ messages[0].content }}", max_model_len=64)
    what = conversation(("user", "abcdefgh"))
    left = ask(server, what, truncate_prompt_tokens=3, return_token_offsets=True)
    assert server.tokenizer.decode(left.token_ids) == "fgh"
    assert left.token_offsets == [(5, 6), (6, 7), (7, 8)]
    right = ask(server, what, truncate_prompt_tokens=3, truncation_side="right", add_special_tokens=True)
    assert server.tokenizer.decode(right.token_ids) == "<s>ab"
    kept = ask(server, what, truncate_prompt_tokens=3, add_special_tokens=True)
    assert server.tokenizer.decode(kept.token_ids) == "<s>gh"
    whole = ask(server, conversation(("user", "a" * 100)), truncate_prompt_tokens=-1)
    assert len(whole.token_ids) == 63 and whole.sampling_params.max_tokens == 1


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"truncate_prompt_tokens": 0}, "messages"),
        ({"truncate_prompt_tokens": 65}, "truncate_prompt_tokens"),
        ({}, "input_tokens"),
    ],
)
def test_what_cannot_fit_is_refused(options: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ask(renderer(max_model_len=64), conversation(("user", "a" * 100)), **options)
    assert caught.value.param == param


def test_a_text_that_cannot_fit_is_not_encoded() -> None:
    server = renderer(max_model_len=8)
    server.writer.longest_token = 4
    with pytest.raises(InvalidRequest) as caught:
        ask(server, conversation(("user", "a" * 1000)))
    assert caught.value.param == "input_text"
    assert not server.tokenizer.threads  # type: ignore[attr-defined]


TURNS = conversation(
    ("system", "s"),
    ("user", "first"),
    Message("assistant", None, tool_calls=[ToolCall("f", "{}", "c1"), ToolCall("f", "{}", "c2")]),
    Message("tool", "one", tool_call_id="c1"),
    ("user", "between"),
    Message("tool", "two", tool_call_id="c2"),
    ("assistant", "done"),
    ("user", "last"),
)


def test_no_call_goes_without_its_result() -> None:
    assert droppable(TURNS.messages) == [1, 2, 6, 7]
    assert [message.content for message in without_oldest(TURNS.messages, 6)] == ["s", "done", "last"]


@pytest.mark.parametrize(("room", "starts"), [(4096, "first"), (110, "assistant"), (80, "done"), (40, "last")])
def test_whole_items_go_oldest_first(room: int, starts: str) -> None:
    server = renderer(max_model_len=room)
    text = written(server, TURNS, dialect="responses", drop_oldest_items=True)
    assert text.startswith("<|im_start|>system\ns<|im_end|>\n")
    assert starts in text.split("<|im_start|>")[2]


def test_ranges_and_features() -> None:
    assert kept_ranges(10, 4, None, first=1, last=1) == [(0, 1), (7, 9), (9, 10)]
    assert kept_ranges(10, 2, "right", first=1, last=1) == [(0, 0), (0, 2), (10, 10)]
    features = Features(mm_hashes={"image": ["h"]}, mm_placeholders={"image": [Placeholder(5, 2)]})
    moved = shifted(features, [(0, 1), (4, 9)])
    assert moved is not None and moved.mm_placeholders["image"] == [Placeholder(2, 2)]
