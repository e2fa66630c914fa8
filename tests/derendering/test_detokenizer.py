"""The texts of the tokens make up the whole decode, for any ids, prompts and serialised states."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tokenizing.detokenizer import Detokenizer, DetokenizerState
from tests.derendering.tokenizers_at_hand import byte_level, every, sentencepiece, wordpiece

ids = st.lists(st.integers(0, 300), max_size=24)


def streamed(tokenizer, prompt, output, skip=False, travel=True, whole=True):
    detokenizer = Detokenizer(tokenizer, skip_special_tokens=skip)
    state = detokenizer.start(prompt)
    text = ""
    for token_id in output:
        text += detokenizer.feed(state, token_id)
        if travel:
            state = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=DetokenizerState)
    return text + (detokenizer.finish(state) if whole else "")


def bad_run(tokenizer, output, skip):
    """A run of byte tokens that mixes good characters and bad bytes: the exception in the module's law."""
    run = b""
    for token_id in [*output, -1]:
        if token_id >= tokenizer.vocab_size or (token_id in tokenizer.special_ids and skip):
            continue
        token = tokenizer.id_to_token(token_id) if token_id >= 0 else None
        if token is not None and re.fullmatch("<0x..>", token):
            run += tokenizer.token_bytes(token_id)
            continue
        if run.decode("utf-8", "replace").count("\ufffd") and run.decode("utf-8", "ignore"):
            return True
        run = b""
    return False


@pytest.mark.parametrize("number", range(4))
@given(output=ids, skip=st.booleans())
def test_concatenation_is_the_whole_decode(number, output, skip):
    tokenizer = every()[number]
    output = [i % (tokenizer.vocab_size + 3) for i in output]
    if number in (1, 2) and bad_run(tokenizer, output, skip):
        return
    inside = [i for i in output if i < tokenizer.vocab_size]
    assert streamed(tokenizer, [], output, skip) == tokenizer.decode(inside, skip_special_tokens=skip)


@given(prompt=ids, output=ids)
def test_after_a_prompt_the_output_goes_on_where_it_ended(prompt, output):
    tokenizer = byte_level()
    prompt = [i % 128 for i in prompt]
    whole = tokenizer.decode(prompt + [i % tokenizer.vocab_size for i in output])
    start = tokenizer.decode(prompt)
    assert start + streamed(tokenizer, prompt, [i % tokenizer.vocab_size for i in output]) == whole


def test_a_leading_space_is_kept_after_a_prompt_and_dropped_at_the_opening():
    tokenizer = sentencepiece(True)
    hello, bos = tokenizer.token_to_id("▁Hello"), tokenizer.token_to_id("<|end|>")
    assert streamed(tokenizer, [tokenizer.token_to_id("a")], [hello]) == " Hello"
    assert streamed(tokenizer, [], [hello]) == "Hello"
    assert streamed(tokenizer, [bos], [hello], skip=True) == "Hello"
    assert streamed(tokenizer, [bos], [hello], skip=False) == " Hello"


def test_a_character_over_token_borders_is_held_and_survives_the_journey():
    """B34: one token a chunk, the state serialised between chunks."""
    text = "한🙂국어 é"
    tokenizer = byte_level()
    output = list(text.encode())
    pieces = Detokenizer(tokenizer)
    state = pieces.start()
    assert [pieces.feed(state, i) for i in output[:3]] == ["", "", "한"]
    assert streamed(tokenizer, None, output) == text
    fallback = sentencepiece(True)
    assert streamed(fallback, None, [b + 1 for b in output]) == text


def test_a_genuine_replacement_character_does_not_hold_the_stream():
    fallback = sentencepiece(True)
    genuine = fallback.token_to_id("�")
    assert streamed(fallback, None, [genuine, genuine], whole=False) == "��"
    broken = [0xFF] * 40
    assert len(streamed(byte_level(), None, broken, whole=False)) == 40


def test_good_characters_before_a_bad_byte_stay():
    tokenizer = sentencepiece(True)
    assert streamed(tokenizer, None, [b + 1 for b in "é".encode() + b"\xf0\x9f"]) == "é��"


def test_ids_outside_the_vocabulary_give_nothing():
    for tokenizer in every():
        a = tokenizer.token_to_id("a")
        alone = streamed(tokenizer, None, [a])
        assert streamed(tokenizer, None, [10**6, a, 2**31, tokenizer.vocab_size]) == alone


def test_spaces_between_added_tokens_only_where_asked():
    tokenizer = wordpiece()
    markers = [tokenizer.token_to_id("<think>"), tokenizer.token_to_id("</think>")]
    joined = Detokenizer(tokenizer, skip_special_tokens=False, spaces_between_special_tokens=False)
    state = joined.start()
    assert "".join(text for _, text in joined.feed_all(state, markers)) == "<think></think>"
    assert streamed(tokenizer, None, markers) == "<think> </think>"


def test_the_state_is_small():
    detokenizer = Detokenizer(byte_level())
    state = detokenizer.start(range(97, 122))
    for token_id in range(256):
        detokenizer.feed(state, token_id)
    assert len(msgspec.msgpack.encode(state)) < 20
