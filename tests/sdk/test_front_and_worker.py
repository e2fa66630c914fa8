"""Our server as front and as worker, in two processes: the public APIs say the same through both."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.engines.processes import isthmus
from tests.engines.weights import tiny_directory

pytestmark = pytest.mark.slow
MESSAGES: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("pair")
    place = folder / "model"
    place.mkdir()
    model = tiny_directory(place)
    formats = 'tool_format = "none"\nreasoning_format = "none"\n'
    served = f'[[models]]\nname = "m"\nsource = {json.dumps(str(model))}\nengine = "e"\n{formats}'
    head = 'database_url = ""\napi_keys = ["key"]\n'
    local = '[[engines]]\nname = "e"\nkind = "local"\nthreads = 1\n'
    with isthmus(head + served + local, folder, "worker") as worker:
        pool = f'[[engines]]\nname = "e"\nkind = "vllm"\nurls = ["{worker}"]\napi_key = "key"\n'
        with isthmus(head + served + pool, folder, "front") as front:
            yield worker, front


def clients(url: str) -> tuple[openai.OpenAI, anthropic.Anthropic]:
    return (
        openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0),
        anthropic.Anthropic(base_url=url, api_key="key", max_retries=0),
    )


def tokens(reply: Any) -> tuple[int, int]:
    """Counts; how many came from a cache depends on what was asked before."""
    return reply.usage.prompt_tokens, reply.usage.completion_tokens


def told(url: str) -> dict[str, Any]:
    """What each API says, whole and streamed, greedily."""
    ours, theirs = clients(url)
    found: dict[str, Any] = {}
    greedy: dict[str, Any] = {"model": "m", "temperature": 0}
    with ours, theirs:
        chat = ours.chat.completions.create(messages=MESSAGES, max_tokens=12, **greedy)
        found["chat"] = chat.choices[0].message.content, chat.choices[0].finish_reason, tokens(chat)
        chunks = list(
            ours.chat.completions.create(
                messages=MESSAGES, max_tokens=12, stream=True, stream_options={"include_usage": True}, **greedy
            )
        )
        text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        assert text == chat.choices[0].message.content
        completion = ours.completions.create(prompt=["Hi", "Ho"], max_tokens=6, echo=True, logprobs=1, **greedy)
        found["completions"] = [choice.text for choice in completion.choices], tokens(completion)
        pieces = ours.completions.create(prompt=["Hi", "Ho"], max_tokens=6, echo=True, stream=True, **greedy)
        texts = {0: "", 1: ""}
        for piece in pieces:
            for choice in piece.choices:
                texts[choice.index] += choice.text
        assert [texts[0], texts[1]] == found["completions"][0]
        response = ours.responses.create(input="Hi", max_output_tokens=12, **greedy)
        found["responses"] = response.output_text, response.status, response.usage and response.usage.output_tokens
        with ours.responses.stream(input="Hi", max_output_tokens=12, **greedy) as stream:
            final = list(stream)[-1]
        assert final.response.output_text == response.output_text  # type: ignore[union-attr]
        body: Any = {"model": "m", "messages": MESSAGES, "max_tokens": 12, "extra_body": {"temperature": 0}}
        message = theirs.messages.create(**body)
        found["messages"] = [block.to_dict() for block in message.content], message.stop_reason
        with theirs.messages.stream(**body) as events:
            assert "".join(events.text_stream) == found["messages"][0][0]["text"]
    return found


def test_the_front_says_what_the_worker_says(pair: tuple[str, str]) -> None:
    worker, front = pair
    assert told(front) == told(worker)


def test_refusals_of_the_worker_reach_the_client(pair: tuple[str, str]) -> None:
    ours, _ = clients(pair[1])
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as refused:
            ours.chat.completions.create(model="m", messages=MESSAGES, stream=stream, extra_body={"watermarking": True})
        assert refused.value.param == "watermarking"
    ours.close()
