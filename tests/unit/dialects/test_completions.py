import msgspec
import pytest

from app.protocol.completions import COMPLETIONS_EXAMPLE
from app.rendering.limits import MAX_PROMPTS
from tests.unit.dialects.bodies import completions, refused


def test_the_example_is_read() -> None:
    (given,) = completions(**COMPLETIONS_EXAMPLE)
    assert given.text == "The capital of France is"
    assert given.template.add_special_tokens


def test_one_prompt_has_the_bare_id() -> None:
    (given,) = completions(header="h", prompt="x")
    assert given.request_id == "cmpl-h"
    (given,) = completions(request_id="b", prompt=["x"])
    assert given.request_id == "cmpl-b"


def test_several_prompts_are_numbered() -> None:
    given = completions(request_id="b", prompt=["x", "y", ""])
    assert [(one.request_id, one.text) for one in given] == [("cmpl-b-0", "x"), ("cmpl-b-1", "y"), ("cmpl-b-2", "")]
    given = completions(prompt=[[1, 2], [3]])
    assert [one.token_ids for one in given] == [[1, 2], [3]]


def test_ids_are_one_prompt() -> None:
    (given,) = completions(prompt=[0, 499])
    assert (given.text, given.token_ids) == (None, [0, 499])


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        ("", "prompt"),
        ([], "prompt"),
        ([[]], "prompt[0]"),
        ([[1], []], "prompt[1]"),
        ([1, -1], "prompt[1]"),
        ([1, 500], "prompt[1]"),
        ([[1, 500]], "prompt[0][1]"),
        ([1, "a"], "prompt[1]"),
        (["a", 1], "prompt[1]"),
        (["a", [1]], "prompt[1]"),
        ([[1], "a"], "prompt[1]"),
        (["a"] * (MAX_PROMPTS + 1), "prompt"),
    ],
)
def test_wrong_prompts(prompt: object, param: str) -> None:
    refused(completions, param, prompt=prompt)


def test_what_is_not_served() -> None:
    refused(completions, "prompt_embeds", prompt_embeds="QUJD")
    refused(completions, "suffix", prompt="x", suffix="")


def test_max_tokens() -> None:
    def limit(**body: object) -> int | None:
        (given,) = completions(prompt="x", **body)
        return given.sampling.max_tokens

    assert (limit(), limit(max_tokens=None), limit(max_tokens=3)) == (16, 16, 3)
    assert limit(max_tokens=0, echo=True) == 1
    refused(completions, "max_tokens", prompt="x", max_tokens=0)
    refused(completions, "logprob_token_ids", prompt="x", echo=True, max_tokens=0, logprobs=1, logprob_token_ids=[1])


def test_logprobs() -> None:
    def both(**body: object) -> tuple[int | None, int | None]:
        (given,) = completions(prompt="x", **body)
        return given.sampling.logprobs, given.sampling.prompt_logprobs

    assert both() == (None, None)
    assert both(echo=True) == (None, None)
    assert both(logprobs=2) == (2, None)
    assert both(logprobs=2, echo=True) == (2, 2)
    assert both(logprobs=2, echo=True, prompt_logprobs=1) == (2, 1)
    assert both(logprobs=0, logprob_token_ids=[4]) == (None, None)
    refused(completions, "logprobs", prompt="x", logprobs=-2)
    refused(completions, "logprob_token_ids", prompt="x", logprob_token_ids=[4])


def test_special_tokens_can_be_left_out() -> None:
    (given,) = completions(prompt="x", add_special_tokens=False)
    assert not given.template.add_special_tokens


def test_n_is_a_number() -> None:
    with pytest.raises(msgspec.ValidationError, match="n"):
        completions(prompt="x", n=None)
