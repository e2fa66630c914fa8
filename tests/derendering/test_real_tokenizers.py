"""Incremental detokenisation over every real tokenizer there is: the pieces make up the whole decode."""

import random
import re

import pytest

from app.tokenizing.detokenizer import Detokenizer, _decoding

TEXT = "Hello wörld 한국어 🙂 日本語, naïve café\n\n\tdef f(x):\n    return x  # done 👩‍💻 ҉ ᚠ"


def pieces_of(tokenizer, prompt, ids, skip):
    detokenizer = Detokenizer(tokenizer, skip_special_tokens=skip)
    state = detokenizer.start(prompt)
    return "".join(text for _, text in detokenizer.feed_all(state, ids)) + detokenizer.finish(state)


def mixed_run(tokenizer, ids):
    """Byte tokens that mix good characters and bad bytes: the module's one exception."""
    if tokenizer.token_to_id("<0xF0>") is None:
        return False
    runs = re.findall(rb"[\x80-\xff]+", b"".join(tokenizer.token_bytes(i) for i in ids))
    return any("\ufffd" in run.decode("utf-8", "replace") for run in runs)


@pytest.mark.parametrize("skip", [False, True])
def test_pieces_make_up_the_whole_decode(any_model, skip):
    tokenizer = any_model.tokenizer
    rng = random.Random(7)
    outputs = [list(tokenizer.encode(TEXT).ids)]
    added = list(tokenizer.added_tokens)
    for _ in range(150):
        ids = [rng.randrange(tokenizer.vocab_size + 5) for _ in range(rng.randrange(1, 12))]
        ids += (
            rng.sample(added, min(2, len(added))) + tokenizer.encode(TEXT[rng.randrange(20) :]).ids[: rng.randrange(9)]
        )
        rng.shuffle(ids)
        outputs.append(ids)
    for ids in outputs:
        if not mixed_run(tokenizer, ids):
            assert pieces_of(tokenizer, None, ids, skip) == tokenizer.decode(ids, skip_special_tokens=skip)
        # After a prompt the text goes on where it ended, with its leading space where the model wrote one.
        prompt = list(tokenizer.encode("Good morning").ids)
        if not mixed_run(tokenizer, [*prompt, *ids]):
            whole = tokenizer.decode(prompt + ids, skip_special_tokens=skip)
            start = tokenizer.decode(prompt, skip_special_tokens=skip)
            assert start + pieces_of(tokenizer, prompt, ids, skip) == whole


def test_real_tokenizers_take_the_quick_way(any_model):
    assert _decoding(any_model.tokenizer).kind == "bytes"
