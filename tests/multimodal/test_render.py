"""Requests with media through the HTTP app, in every dialect: what is rendered, and what is refused."""

import base64
import json

import pytest
from PIL import Image

from app.multimodal.items import decode_item, from_base64
from tests.multimodal.pictures import chat, data_url, encoded, image_part, noise, picture_url

CHAT, RESPONSES, MESSAGES = (f"/v1/{name}/render" for name in ("chat/completions", "responses", "messages"))
START, PAD, END = 151652, 151655, 151653
URL = picture_url(60, 60)
TOKENS = 4  # 60 x 60 pixels become 56 x 56, 4 x 4 patches, of which four are a token


def rendered(client, path, body, status=200):
    reply = client.post(path, json=body)
    assert reply.status_code == status, reply.text
    return reply.json() if status == 200 else reply.json()["error"]


def places(reply, modality="image"):
    """The placeholders, each of which must lie between the vision markers and hold nothing but pads."""
    found = reply["features"]["mm_placeholders"][modality]
    ids = reply["token_ids"]
    for place in found:
        start, end = place["offset"], place["offset"] + place["length"]
        assert set(ids[start:end]) == {PAD} and (ids[start - 1], ids[end]) == (START, END)
    return found


@pytest.mark.parametrize(
    "part",
    [
        image_part(URL),
        {"type": "image_url", "image_url": URL},
        {"type": "input_image", "image_url": URL},
        {"image_url": {"url": URL, "detail": "low"}},
        image_part(URL, detail="high"),
        image_part(URL.replace("data:image/png", "DATA:Image/PNG;charset=utf-8")),
    ],
    ids=["object", "string", "input_image", "no type", "detail", "spelling"],
)
def test_spellings_of_an_image(vision_client, part):
    reply = rendered(vision_client, CHAT, chat("A", part, "B"))
    assert reply["token_ids"] == rendered(vision_client, CHAT, chat("A", image_part(URL), "B"))["token_ids"]
    assert [place["length"] for place in places(reply)] == [TOKENS]


@pytest.mark.parametrize("role", ["system", "user", "tool"])
def test_images_in_messages_of_all_roles(vision_client, role):
    content = [{"type": "text", "text": "See "}, image_part(URL)]
    messages = [
        {"role": role, "content": content, **({"tool_call_id": "c"} if role == "tool" else {})},
        {"role": "user", "content": "And now?"},
    ]
    if role == "tool":
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages.insert(0, {"role": "assistant", "content": "", "tool_calls": [call]})
    assert len(places(rendered(vision_client, CHAT, {"model": "vl", "messages": messages}))) == 1


def test_responses_and_messages_take_images(vision_client):
    as_chat = rendered(vision_client, CHAT, chat("Look", image_part(URL)))
    parts = [{"type": "input_text", "text": "Look"}, {"type": "input_image", "image_url": URL, "detail": "auto"}]
    body = {"model": "vl", "input": [{"role": "user", "content": parts}]}
    as_responses = rendered(vision_client, RESPONSES, body)
    source = {"type": "base64", "media_type": "image/png", "data": URL.partition(",")[2]}
    blocks = [{"type": "text", "text": "Look"}, {"type": "image", "source": source}]
    body = {"model": "vl", "max_tokens": 8, "messages": [{"role": "user", "content": blocks}]}
    as_messages = rendered(vision_client, MESSAGES, body)
    for other in (as_responses, as_messages):
        assert (other["token_ids"], other["features"]) == (as_chat["token_ids"], as_chat["features"])
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": URL}]}
    places(
        rendered(vision_client, RESPONSES, {"model": "vl", "input": [{"role": "user", "content": "Go"}, call, output]})
    )
    result = [{"type": "image", "source": source}]
    blocks = [{"type": "tool_result", "tool_use_id": "t", "content": result}]
    messages = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]},
        {"role": "user", "content": blocks},
    ]
    places(rendered(vision_client, MESSAGES, {"model": "vl", "max_tokens": 8, "messages": messages}))


def test_transparency_is_laid_on_the_colour_of_the_setting(serve_vision):
    body = chat(image_part(data_url(encoded(Image.new("RGBA", (56, 56))))))
    hashes = []
    for colour, setting in ((255, "{}"), (0, '{"alpha_background": [0, 0, 0]}')):
        features = rendered(serve_vision(ISTHMUS_MEDIA=setting), CHAT, body)["features"]
        fields = decode_item(from_base64(features["kwargs_data"]["image"][0]))
        assert set(fields["pixel_values"].data.array().reshape(-1).tolist()) == {colour}
        hashes.append(features["mm_hashes"]["image"][0])
    assert hashes[0] != hashes[1]


@pytest.mark.parametrize("field", [{"mm_payload": "none"}, {"return_mm_kwargs": False}])
def test_placeholders_and_hashes_alone(vision_client, field):
    body = chat(image_part(URL), image_part(picture_url(31, 90)))
    light, full = rendered(vision_client, CHAT, {**body, **field}), rendered(vision_client, CHAT, body)
    features = light["features"]
    assert features["kwargs_data"] is None and features["mm_metadata"] is None
    for name in ("mm_hashes", "mm_placeholders"):
        assert features[name] == full["features"][name]
    assert light["token_ids"] == full["token_ids"]


def test_metadata_has_the_light_fields_only_in_the_same_order(vision_client):
    reply = rendered(vision_client, CHAT, chat(image_part(picture_url(300, 60)), image_part(URL)))
    features = reply["features"]
    for data, light, place in zip(
        features["kwargs_data"]["image"], features["mm_metadata"]["image"], places(reply), strict=True
    ):
        whole, part = decode_item(from_base64(data)), decode_item(from_base64(light))
        assert list(part) == ["image_grid_thw"] and part["image_grid_thw"] == whole["image_grid_thw"]
        assert part["image_grid_thw"].data.array().prod() == 4 * place["length"]


def test_a_uuid_is_the_hash_and_stands_for_the_image_later(vision_client):
    named = rendered(vision_client, CHAT, chat(image_part(URL, uuid="picture-1")))
    assert named["features"]["mm_hashes"] == {"image": ["picture-1"]}
    later = rendered(vision_client, CHAT, chat({"type": "image_url", "image_url": None, "uuid": "picture-1"}))
    assert later["features"] == named["features"]
    unknown = chat({"type": "image_url", "image_url": None, "uuid": "never seen"})
    assert rendered(vision_client, CHAT, unknown, 400)["param"].startswith("messages[0].content[0]")


def test_placeholders_that_a_user_types_stay_text(vision_client):
    reply = rendered(vision_client, CHAT, chat("<|image_pad|><|vision_start|>", image_part(URL), "<|video_pad|>"))
    assert [place["length"] for place in places(reply)] == [TOKENS]
    assert reply["token_ids"].count(PAD) == TOKENS and 151656 not in reply["token_ids"]


def test_truncation_never_cuts_an_image(vision_client):
    body = chat("one two three ", image_part(URL), " four five six")
    whole = rendered(vision_client, CHAT, body)
    (place,) = places(whole)
    length, offset = len(whole["token_ids"]), place["offset"]
    for side, keep in (("left", length - offset), ("right", offset + TOKENS)):
        kept = rendered(vision_client, CHAT, {**body, "truncate_prompt_tokens": keep, "truncation_side": side})
        start = 0 if side == "right" else length - keep
        assert kept["token_ids"] == whole["token_ids"][start : start + keep]
        assert kept["features"]["mm_placeholders"]["image"] == [{"offset": offset - start, "length": TOKENS}]
        cut = {**body, "truncate_prompt_tokens": keep - 1, "truncation_side": side}
        assert rendered(vision_client, CHAT, cut, 400)["param"] == "truncate_prompt_tokens"


def test_dropping_old_items_counts_what_images_take(vision_client, serve_vision, vision_folder):
    size = 28 * 32
    model = [{"name": "vl", "source": str(vision_folder), "tokenizer": "hf", "max_model_len": 2000}]
    client = serve_vision(ISTHMUS_MODELS=json.dumps(model))
    images = [
        {"role": "user", "content": [{"type": "input_image", "image_url": picture_url(size, size, seed)}]}
        for seed in range(3)
    ]
    body = {"model": "vl", "input": [*images, {"role": "user", "content": "Which?"}], "mm_payload": "none"}
    assert rendered(client, RESPONSES, body, 400)["param"] == "input_tokens"
    reply = rendered(client, RESPONSES, {**body, "truncation": "auto"})
    assert [place["length"] for place in places(reply)] == [1024]
    full = rendered(vision_client, RESPONSES, body)
    assert reply["features"]["mm_hashes"]["image"] == full["features"]["mm_hashes"]["image"][2:]


def test_offsets_of_a_placeholder_are_its_markers(vision_client):
    reply = rendered(vision_client, CHAT, chat("A", image_part(URL), "B", return_token_offsets=True))
    (place,) = places(reply)
    offsets = reply["token_offsets"]
    assert len(offsets) == len(reply["token_ids"])
    inside = offsets[place["offset"] : place["offset"] + place["length"]]
    assert inside == [inside[0]] * TOKENS and inside[0][1] - inside[0][0] == len("<|image_pad|>")
    assert offsets == sorted(offsets)


def test_too_many_items_are_refused_by_name(serve_vision):
    client = serve_vision(ISTHMUS_MEDIA='{"max_items": 2}')
    error = rendered(client, CHAT, chat(*[image_part(URL)] * 3), 400)
    assert error["param"] == "messages[0].content[2].image_url.url" and "at most 2" in error["message"]


def test_processor_options_need_trust(vision_client, serve_vision):
    body = chat(image_part(picture_url(300, 300)), mm_processor_kwargs={"max_pixels": 28 * 28 * 5})
    assert rendered(vision_client, CHAT, body, 400)["param"] == "mm_processor_kwargs"
    trusting = serve_vision(ISTHMUS_TRUST_REQUEST_MM_KWARGS="true")
    assert [place["length"] for place in places(rendered(trusting, CHAT, body))] == [4]


def test_b77_orientation_is_applied_before_counting(vision_client):
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = encoded(noise(240, 160), "JPEG", exif=exif.tobytes())
    upright = encoded(noise(160, 240), "JPEG")
    grids = []
    for picture in (turned, upright):
        features = rendered(vision_client, CHAT, chat(image_part(data_url(picture))))["features"]
        grids.append(decode_item(from_base64(features["kwargs_data"]["image"][0]))["image_grid_thw"].data.array())
    assert grids[0].tolist() == grids[1].tolist() == [1, 18, 12]


def test_b79_pictures_of_one_area_have_hashes_of_their_own(vision_client):
    palette = Image.new("P", (30, 30))
    palette.putpalette([200, 0, 0] * 256)
    other = palette.copy()
    other.putpalette([0, 0, 200] * 256)
    pictures = [noise(30, 150), noise(150, 30), palette, other, palette.convert("L"), palette.convert("RGBA")]
    parts = [image_part(data_url(encoded(one))) for one in pictures]
    hashes = rendered(vision_client, CHAT, chat(*parts, mm_payload="none"))["features"]["mm_hashes"]["image"]
    assert len(set(hashes)) == len(pictures)


@pytest.mark.parametrize(("width", "height"), [(161, 184), (1003, 57), (29, 31), (28, 5599), (1, 199), (997, 1009)])
def test_b83_counts_are_the_models_own(vision_client, width, height):
    """The processor's grid is transformers' (tests/multimodal/test_processors.py); here it is the prompt's count."""
    url = data_url(encoded(Image.new("RGB", (width, height))))
    reply = rendered(vision_client, CHAT, chat(image_part(url)))
    grid = decode_item(from_base64(reply["features"]["kwargs_data"]["image"][0]))["image_grid_thw"].data.array()
    assert [place["length"] for place in places(reply)] == [grid.prod() // 4]


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png,abc", "data:image/png;base64", "data:image/png;base64,", "data:image/png;base64,!!!!",
        data_url(b"GIF89a"), data_url(encoded(noise(64, 64))[:200]), "ftp://x/y.png", "nonsense", "",
    ],
)  # fmt: skip
def test_broken_images_name_their_part(vision_client, url):
    error = rendered(vision_client, CHAT, chat("A", image_part(URL), image_part(url)), 400)
    assert error["param"].startswith("messages[0].content[2].image_url")


def test_media_for_a_modality_that_the_model_has_not(vision_client):
    audio = {"type": "input_audio", "input_audio": {"data": base64.b64encode(b"x").decode(), "format": "wav"}}
    assert rendered(vision_client, CHAT, chat(audio), 400)["param"].startswith("messages[0].content[0]")
