"""What is remembered between chunks is only a saving: another request under the same id is made anew."""

from app.dialects.recent import Recent
from tests.derendering.served import SmallModel, chat
from tests.derendering.talking import CHAT_TOOLS, PROMPT, chunks, talking_model


def test_only_an_equal_request_for_the_same_model_is_known():
    recent, made, model, other = Recent(size=2), [], object(), object()

    def get(request_id, request, served=model):
        return recent.get("chat", request_id, served, request, lambda: made.append(request) or len(made))

    assert get("a", {"n": 1}) == get("a", {"n": 1}) == 1
    assert get("a", {"n": 2}) == 2
    assert get("a", {"n": 2}, other) == 3
    assert get("b", {}) == 4
    assert get("c", {}) == 5
    assert get("a", {"n": 2}, other) == 6


def test_two_streams_under_one_id_do_not_meet():
    model = talking_model()
    one = {"messages": [{"role": "user", "content": "hi"}], "tools": CHAT_TOOLS}
    for text, wanted in (("</think>" + "a" * 9, "a" * 9), ("</think><tool_call>", "<tool_call>")):
        plain = {**one, "tool_choice": "none"} if wanted != "a" * 9 else one
        state, content = None, ""
        for chunk in chunks(text, [1] * 12):
            sent = {"stream": True, "generate_chunk": chunk, "stream_state": state, "prompt_token_ids": PROMPT}
            answer = chat(model, **sent, chat_request=plain)
            state = answer["stream_state"]
            content += "".join(c["delta"]["content"] or "" for c in answer["chunk"]["choices"])
        assert content == wanted


def test_a_model_of_the_same_name_is_another():
    chunk = chunks("a", [], "length")[0]
    for model in (SmallModel(), SmallModel()):
        assert chat(model, stream=True, generate_chunk=chunk)["chunk"]["choices"][0]["delta"]["content"] == "a"
