import pytest

from app.rendering.conversation import Media
from tests.unit.dialects.bodies import chat, completions, messages, refused, responses

IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": "http://x/1.png"}]}]


@pytest.mark.parametrize("salt", ["", "a@b", "a/b", "a\\b", "a\0b", "x" * 129])
def test_a_salt_that_breaks_a_cache_is_refused(salt: str) -> None:
    """B72, in every dialect."""
    refused(chat, "cache_salt", cache_salt=salt)
    refused(completions, "cache_salt", prompt="x", cache_salt=salt)
    refused(responses, "cache_salt", cache_salt=salt)
    refused(messages, "cache_salt", cache_salt=salt)


def test_other_salts_go_through() -> None:
    assert chat(cache_salt="x" * 128).cache_salt == "x" * 128
    assert messages(cache_salt="tenant:7 é").cache_salt == "tenant:7 é"


def test_transfer_parameters_move_out_of_the_extra_arguments() -> None:
    given = chat(vllm_xargs={"mode": "fast", "levels": [1, 2.5, "x"], "kv_transfer_params": {"a": 1}})
    assert given.sampling.extra_args == {"mode": "fast", "levels": [1, 2.5, "x"]}
    assert given.kv_transfer_params == {"a": 1}
    refused(chat, "vllm_xargs.ec_transfer_params", vllm_xargs={"ec_transfer_params": 3})
    own = chat(ec_transfer_params={"own": 1}, vllm_xargs={"ec_transfer_params": {"other": 1}})
    assert own.ec_transfer_params == {"own": 1}


@pytest.mark.parametrize(
    ("value", "param"), [({}, "x"), (None, "x"), ([[1]], "x[0]"), ([None], "x[0]"), (2**64, "x"), (-(2**63) - 1, "x")]
)
def test_extra_arguments_are_plain(value: object, param: str) -> None:
    refused(chat, f"vllm_xargs.{param}", vllm_xargs={"x": value})


def test_priority_is_64_bit() -> None:
    assert chat(priority=-7).priority == -7
    refused(chat, "priority", priority=2**63)


class TestReusedPrompt:
    """What the prefill stage rendered is not rendered again by the decode stage."""

    PARAM = "kv_transfer_params.prompt_token_ids"

    def test_ids_stand_for_the_prompt(self) -> None:
        for read in (chat, responses, messages):
            given = read(kv_transfer_params={"prompt_token_ids": [3, 4], "engine": "e"})
            assert given.token_ids == [3, 4]
            assert given.conversation is not None
            assert given.kv_transfer_params == {"engine": "e"}

    def test_a_completions_request_has_its_own(self) -> None:
        (given,) = completions(prompt="x", kv_transfer_params={"prompt_token_ids": [3], "a": 1})
        assert (given.text, given.token_ids) == ("x", None)
        assert given.kv_transfer_params == {"a": 1, "prompt_token_ids": [3]}

    def test_the_ids_are_not_cut(self) -> None:
        given = chat(truncate_prompt_tokens=1, kv_transfer_params={"prompt_token_ids": [3, 4]})
        assert given.template.truncate_prompt_tokens is None

    def test_not_with_media_or_echo(self) -> None:
        given = chat(messages=IMAGE, kv_transfer_params={"prompt_token_ids": [3]})
        assert given.token_ids is None
        assert given.kv_transfer_params == {}
        assert given.conversation is not None
        assert isinstance((given.conversation.messages[0].content or [])[0], Media)
        assert chat(echo=True, kv_transfer_params={"prompt_token_ids": [3]}).token_ids is None

    def test_wrong_ids(self) -> None:
        for ids in (7, "x", []):
            refused(chat, self.PARAM, kv_transfer_params={"prompt_token_ids": ids})
        for token in (-1, 500, 2**40, "3", 1.5, None):
            refused(chat, f"{self.PARAM}[1]", kv_transfer_params={"prompt_token_ids": [0, token]})
