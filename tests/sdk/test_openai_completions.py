"""The openai SDK over completions: many prompts, echo, logprobs, streams."""

from typing import Any

import openai
import pytest

from app.protocol.generate import GenerateRequest
from tests.engines.scripted import Script
from tests.sdk.live import END, Live


def folded(chunks: Any) -> dict[int, tuple[str, str | None, list[Any]]]:
    texts: dict[int, tuple[str, str | None, list[Any]]] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            text, reason, tokens = texts.get(choice.index, ("", None, []))
            logprobs = choice.logprobs
            if logprobs:
                tokens = [
                    *tokens,
                    *zip(
                        logprobs.tokens,
                        logprobs.token_logprobs,
                        logprobs.text_offset,
                        logprobs.top_logprobs,
                        strict=True,
                    ),
                ]
            texts[choice.index] = (text + choice.text, choice.finish_reason or reason, tokens)
    return texts


def scored(server: Live) -> Any:
    """A script that gives the prompt's logprobs where they are asked for, as engines do."""

    def answer(request: GenerateRequest) -> Script:
        entries = [
            None if place == 0 else {str(token): {"logprob": -place / 8, "rank": 1}}
            for place, token in enumerate(request.token_ids)
        ]
        wanted = isinstance(request.sampling_params.prompt_logprobs, int)
        return Script(server.ids(f" Paris.{END}"), prompt_logprobs=entries if wanted else None)

    return answer


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"echo": True},
        {"logprobs": 1},
        {"echo": True, "logprobs": 1},
        {"echo": True, "logprobs": 0, "max_tokens": 0},
        {"n": 2, "temperature": 1},
        {"n": 2, "temperature": 1, "echo": True, "logprobs": 2},
        {"stop": ["ri"]},
    ],
    ids=repr,
)
@pytest.mark.parametrize("many", [False, True])
def test_the_stream_folds_to_the_whole(server: Live, fields: dict[str, Any], many: bool) -> None:
    server.says(scored(server))
    client = server.openai()
    prompt: Any = ["The capital of France is", "Ville 世界 🙂:"] if many else "The capital of France is"
    whole = client.completions.create(model="m", prompt=prompt, **fields)
    assert [choice.index for choice in whole.choices] == list(range((2 if many else 1) * fields.get("n", 1)))
    chunks = list(
        client.completions.create(
            model="m", prompt=prompt, stream=True, stream_options={"include_usage": True}, **fields
        )
    )
    assert folded(chunks) == folded([whole])
    assert chunks[-1].usage == whole.usage and len({chunk.id for chunk in chunks}) == 1


def test_echo_and_logprobs(server: Live) -> None:
    server.says(scored(server))
    prompt = "The capital of France is"
    client = server.openai()
    reply = client.completions.create(model="m", prompt=prompt, echo=True, logprobs=1)
    choice = reply.choices[0]
    assert choice.text == prompt + " Paris." and choice.finish_reason == "stop"
    logprobs = choice.logprobs
    assert logprobs and logprobs.token_logprobs and logprobs.text_offset and logprobs.top_logprobs
    assert "".join(logprobs.tokens or ()) == choice.text + END
    assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None
    assert logprobs.token_logprobs[1:5] == [-1 / 8, -2 / 8, -3 / 8, -4 / 8]
    assert logprobs.text_offset[:3] == [0, 3, 11] and logprobs.text_offset[5] == len(prompt)
    alone = client.completions.create(model="m", prompt=prompt, echo=True, logprobs=1, max_tokens=0)
    assert alone.choices[0].text == prompt and alone.choices[0].finish_reason == "length"
    assert alone.choices[0].logprobs and alone.choices[0].logprobs.tokens == (logprobs.tokens or [])[:5]
    assert alone.usage and alone.usage.completion_tokens == 0


def test_prompts_of_ids(server: Live) -> None:
    engine = server.says(f" Paris.{END}")
    client = server.openai()
    ids = server.ids("The capital")
    one: Any = client.completions.create(
        model="m", prompt=ids, echo=True, extra_body={"return_token_ids": True, "prompt_logprobs": None}
    ).choices[0]
    assert one.text == "The capital Paris." and one.prompt_token_ids == ids
    assert one.token_ids == server.ids(f" Paris.{END}")
    many = client.completions.create(model="m", prompt=[ids, ids[:1]], echo=True)
    assert [choice.text for choice in many.choices] == ["The capital Paris.", "The Paris."]
    assert [request.token_ids for request in engine.requests[1:]] == [ids, ids[:1]]
    assert many.usage and many.usage.prompt_tokens == len(ids) + 1
    # Formats are never read in completions.
    server.says(f"<think>\nhm\n</think>\n\nHello{END}")
    assert client.completions.create(model="m", prompt="x").choices[0].text == "<think>\nhm\n</think>\n\nHello"


def test_many_prompts_keep_their_places(server: Live) -> None:
    def answer(request: GenerateRequest) -> Script:
        number = server.text(request.token_ids)
        return Script(server.ids(f" is {number}{END}"), delay_s=0.002 * (int(number) % 3))

    server.says(answer)
    prompts = [str(number) for number in range(100)]
    reply = server.openai().completions.create(model="m", prompt=prompts)
    assert [choice.text for choice in reply.choices] == [f" is {number}" for number in prompts]


def test_one_failing_prompt_ends_them_all(server: Live) -> None:
    def answer(request: GenerateRequest) -> Script:
        broken = server.text(request.token_ids) == "3"
        return Script(server.ids(" more and more and more"), delay_s=0.02, fail_after=2 if broken else None)

    server.says(answer)
    client = server.openai()
    with pytest.raises(openai.InternalServerError):
        client.completions.create(model="m", prompt=["1", "2", "3", "4"])
    seen = []
    with pytest.raises(openai.APIError, match="engine died"):
        for chunk in client.completions.create(model="m", prompt=["1", "2", "3", "4"], stream=True):
            seen.append(chunk)
    assert seen


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": "a", "suffix": "b"}, "suffix"),
        ({"prompt": "a", "best_of": 3}, "best_of"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a", [1]]}, "prompt[1]"),
        ({"prompt": [[1], [999_999_999]]}, "prompt[1]"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "extra_body": {"prompt_logprobs": 1}, "stream": True}, "prompt_logprobs"),
        ({"prompt": "a", "extra_body": {"use_beam_search": True}}, "use_beam_search"),
        ({"prompt": "a", "stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
def test_what_is_not_served_is_refused_by_name(server: Live, fields: dict[str, Any], param: str) -> None:
    server.says(f"x{END}")
    with pytest.raises(openai.BadRequestError) as refused:
        server.openai().completions.create(model="m", **fields)
    assert refused.value.param is not None and refused.value.param.startswith(param)
    assert server.engine.requests == []


def test_best_of_n_is_n(server: Live) -> None:
    server.says(f"x{END}")
    reply = server.openai().completions.create(model="m", prompt="a", n=2, best_of=2, temperature=1)
    assert [choice.text for choice in reply.choices] == ["x", "x"]
