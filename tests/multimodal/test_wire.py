"""Rendered media on the wire: JSON and msgpack say the same, and generate takes both back."""

import base64
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.codec import encode
from app.http.wire import wants_msgpack
from app.multimodal.encoded import EncodedItem
from app.multimodal.items import decode_item
from app.multimodal.splice import CHUNK, Body, bin_header, ext_header
from app.protocol.generate import GenerateRequest
from tests.multimodal.pictures import chat, image_part, picture_url

PATH = "/v1/chat/completions/render"
MSGPACK = {"Accept": "application/msgpack"}


@given(st.lists(st.binary(max_size=20), max_size=8), st.binary(max_size=9))
def test_base64_in_pieces_is_base64(parts, tail):
    item = EncodedItem([*parts, memoryview(tail)])
    whole = b"".join(parts) + tail
    assert b"".join(item.text()) == base64.b64encode(whole)
    assert (item.raw, item.size, item.text_size) == (whole, len(whole), len(base64.b64encode(whole)))
    assert json.loads(encode({"x": item})) == {"x": base64.b64encode(whole).decode()}


@pytest.mark.parametrize("size", [0, 255, 256, 65535, 65536, 70000])
def test_headers_are_msgpacks(size):
    assert bin_header(size) + bytes(size) == msgspec.msgpack.encode(bytes(size))
    if size >= 65536:
        assert ext_header(size, 3) + bytes(size) == msgspec.msgpack.encode(msgspec.msgpack.Ext(3, bytes(size)))


@given(st.lists(st.integers(0, 3 * CHUNK).map(bytes), max_size=4))
def test_chunks_are_the_body(pieces):
    body = Body(pieces)
    chunks = list(body.chunks())
    assert b"".join(chunks) == bytes(body) and len(body) == len(bytes(body))
    assert all(len(chunk) <= 2 * CHUNK for chunk in chunks)


@pytest.mark.parametrize(
    ("accept", "packed"),
    [
        (b"application/msgpack", True),
        (b"application/x-msgpack; q=1, */*;q=0.1", True),
        (b"Application/MsgPack", True),
        (b"application/json, application/msgpack", False),
        (b"application/msgpack, application/json", True),
        (b"application/json;q=0.5, application/vnd.msgpack", True),
        (b"application/msgpack;q=0", False),
        (b"application/msgpack;q=x", False),
        (b"*/*", False),
        (b"", False),
    ],
)
def test_the_wire_is_what_the_client_prefers(accept, packed):
    assert wants_msgpack(accept) is packed


def test_msgpack_says_what_json_says_with_raw_items(vision_client):
    body = chat("Look", image_part(picture_url(300, 200)), image_part(picture_url(31, 62, 1)), request_id="r")
    as_json = vision_client.post(PATH, json=body)
    as_msgpack = vision_client.post(PATH, json=body, headers=MSGPACK)
    assert as_json.headers["content-type"] == "application/json"
    assert as_msgpack.headers["content-type"] == "application/msgpack"
    assert int(as_json.headers["content-length"]) == len(as_json.content)
    assert len(as_msgpack.content) < 0.76 * len(as_json.content)
    one, other = as_json.json(), msgspec.msgpack.decode(as_msgpack.content)
    for name in ("kwargs_data", "mm_metadata"):
        texts, raws = one["features"].pop(name), other["features"].pop(name)
        assert [base64.b64decode(text) for text in texts["image"]] == raws["image"]
        assert all(decode_item(raw) for raw in raws["image"])
    assert one == other


def test_a_text_reply_may_be_msgpack_too(vision_client):
    body = chat("Hi", request_id="r")
    reply = vision_client.post(PATH, json=body, headers=MSGPACK)
    assert msgspec.msgpack.decode(reply.content) == vision_client.post(PATH, json=body).json()
    completions = {"model": "vl", "prompt": ["a", "b"], "request_id": "r"}
    reply = vision_client.post("/v1/completions/render", json=completions, headers=MSGPACK)
    assert [one["request_id"] for one in msgspec.msgpack.decode(reply.content)] == ["cmpl-r-0", "cmpl-r-1"]


def test_an_error_is_json_whatever_was_asked_for(vision_client):
    reply = vision_client.post(PATH, json=chat(image_part("ftp://x/y.png")), headers=MSGPACK)
    assert reply.status_code == 400 and reply.json()["error"]["param"] == "messages[0].content[0].image_url.url"


def test_a_request_struct_takes_items_of_both_wires():
    body = {
        "token_ids": [1],
        "sampling_params": {},
        "features": {"mm_hashes": {}, "mm_placeholders": {}, "kwargs_data": {"image": [b"\x80", None]}},
    }
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(body), type=GenerateRequest)
    assert read.features.kwargs_data == {"image": [b"\x80", None]}
    again = msgspec.json.decode(encode(read), type=GenerateRequest)
    assert again.features.kwargs_data == {"image": ["gA==", None]}
