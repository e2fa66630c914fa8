"""``truncation`` of a stored history that does not fit: whole items go, oldest first, a call with its output."""

import json
from collections.abc import Iterator

import pytest

from tests.models import BUILT, model_directory

from .served import CALL, END, THOUGHT, TOOLS, Served, serve

pytestmark = pytest.mark.skipif(not BUILT, reason="no tokenizer data packages (make test installs them)")
ROOM = 400


@pytest.fixture(scope="module")
def served(store_url: str) -> Iterator[Served]:
    model = {"name": "m", "source": str(model_directory("qwen3")), "tokenizer": "hf", "max_model_len": ROOM}
    with serve(store_url, ISTHMUS_MODELS=json.dumps([model])) as running:
        yield running


def test_what_does_not_fit_is_refused_or_dropped_whole(served: Served) -> None:
    served.says(f"{THOUGHT}{CALL}{END}", f"{THOUGHT}done-it.{END}", f"{THOUGHT}Yes.{END}")
    first = served.post(input="question-1.", tools=TOOLS)
    call = first["output"][-1]["call_id"]
    result = {"type": "function_call_output", "call_id": call, "output": "answer-42"}
    second = served.post(input=[result], previous_response_id=first["id"])
    seen = set()
    for words in range(300, 380, 2):
        body = {"input": "w " * words + "last-one.", "previous_response_id": second["id"]}
        whole = served.call("POST", "/responses", json={"model": "m", **body})
        if whole.status_code != 200:
            assert whole.status_code == 400
            error = whole.json()["error"]
            assert (error["code"], error["param"]) == ("context_length_exceeded", "input")
        cut = served.post(**body, truncation="auto")
        prompt = served.prompt()
        kept = [
            word in prompt for word in ("question-1.", '{"name": "f", "arguments": {"x": 1}}', "answer-42", "done-it.")
        ]
        assert kept[1] == kept[2]
        assert kept == sorted(kept), "the oldest go first"
        assert all(kept) is (whole.status_code == 200)
        assert "last-one." in prompt
        seen.add(tuple(kept))
        # What was dropped from the prompt is in the store: the next turn's history is whole.
        if len(seen) == 2:
            listed = served.call("GET", f"/responses/{cut['id']}/input_items?order=asc&limit=100").json()["data"]
            assert [item["type"] for item in listed].count("function_call_output") == 1
    assert len(seen) >= 3, seen
