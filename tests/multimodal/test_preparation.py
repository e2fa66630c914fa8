"""Media references to prepared items: hashes, counts without pixels, cache, limits."""

import asyncio
import base64
import io
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from app.errors import InvalidRequest
from app.multimodal.fetch import Fetcher
from app.multimodal.items import decode_item
from app.multimodal.preparation import MediaPreparation
from app.multimodal.processor import ProcessorContext
from app.multimodal.reference import Media
from app.settings import MediaSettings
from plugins.qwen_vl import processor as qwen

TOKENS = {"<|vision_start|>": 1, "<|vision_end|>": 2, "<|image_pad|>": 3, "<|video_pad|>": 4}


def data_url(image, format="PNG", kind="image"):
    out = io.BytesIO()
    image.save(out, format)
    return f"data:{kind}/{format.lower()};base64," + base64.b64encode(out.getvalue()).decode()


def image_of(width, height, color="red"):
    return Media("image", data_url(Image.new("RGB", (width, height), color)), param=f"messages[0].content[{width}]")


def prepare(media, *, settings=None, kind=qwen.Qwen25VLProcessor, repeat=1, **options):
    context = ProcessorContext(config={}, token_id=TOKENS.get, encode=lambda text: list(text.encode()))

    async def run():
        settings_ = settings or MediaSettings()
        fetcher = Fetcher(settings_)
        with ThreadPoolExecutor(2) as executor:
            preparation = MediaPreparation(kind(context), fetcher, settings_, "model", executor)
            try:
                for _ in range(repeat):
                    items = await preparation.prepare(media, **options)
                return items
            finally:
                await fetcher.close()

    return asyncio.run(run())


def test_counts_without_pixels_equal_counts_with_them():
    media = [image_of(30, 150), image_of(150, 30), image_of(640, 480)]
    light = prepare(media, tensors=False)
    full = prepare(media)
    assert [one.expansion for one in light] == [one.expansion for one in full]
    assert [one.hash for one in light] == [one.hash for one in full]
    assert all(one.item is None and one.metadata is None for one in light)
    for one in full:
        fields = decode_item(one.item.raw)
        assert list(fields) == ["pixel_values", "image_grid_thw"]
        assert list(decode_item(one.metadata.raw)) == ["image_grid_thw"]
        assert fields["image_grid_thw"].data.array().prod() == 4 * one.expansion.length


def test_a_header_is_enough_where_no_pixel_is_wanted():
    url = data_url(Image.effect_noise((200, 200), 50).convert("RGB"))
    cut = Media("image", url[: len(url) // 2 // 4 * 4], param="p")
    assert prepare([cut], tensors=False)[0].expansion.length > 0
    with pytest.raises(InvalidRequest, match="decoded") as caught:
        prepare([cut])
    assert caught.value.param == "p"


def test_different_sizes_have_different_hashes_and_repeats_have_one():
    wide, tall = image_of(30, 150), image_of(150, 30)
    hashes = [one.hash for one in prepare([wide, tall, wide])]
    assert hashes[0] == hashes[2] != hashes[1]


def test_a_known_item_may_be_named_by_its_uuid_alone():
    url = image_of(60, 60).url
    context = ProcessorContext(config={}, token_id=TOKENS.get, encode=list)

    async def run():
        fetcher = Fetcher(MediaSettings())
        with ThreadPoolExecutor(1) as executor:
            preparation = MediaPreparation(qwen.Qwen2VLProcessor(context), fetcher, MediaSettings(), "m", executor)
            with pytest.raises(InvalidRequest, match="uuid"):
                await preparation.prepare([Media("image", uuid="mine", param="p")])
            (first,) = await preparation.prepare([Media("image", url, "mine")])
            (again,) = await preparation.prepare([Media("image", uuid="mine")])
            (light,) = await preparation.prepare([Media("image", uuid="mine")], tensors=False)
            await fetcher.close()
            return first, again, light

    first, again, light = asyncio.run(run())
    assert first.hash == "mine" and again == first
    assert light.item is None and light.expansion == first.expansion


def test_video_frames():
    frames = [data_url(Image.new("RGB", (60, 60), color), "JPEG") for color in ("red", "green", "blue")]
    url = "data:video/jpeg;base64," + ",".join(one.partition(",")[2] for one in frames)
    for media in (Media("video", url), Media("video", frames=tuple(frames))):
        (one,) = prepare([media])
        fields = decode_item(one.item.raw)
        assert list(fields) == ["pixel_values_videos", "video_grid_thw", "second_per_grid_ts"]
        assert fields["video_grid_thw"].data.array()[0] == 2
        assert fields["second_per_grid_ts"].data.array() == 2.0
    (few,) = prepare([Media("video", url)], io_options={"video": {"num_frames": 2, "fps": 4}})
    assert decode_item(few.item.raw)["second_per_grid_ts"].data.array() == 0.5
    assert few.expansion.length < one.expansion.length and few.hash != one.hash
    (one,) = prepare([Media("video", url)], kind=qwen.Qwen3VLProcessor)
    text = bytes(token for token in one.expansion.ids if token > 4).decode()
    assert text == "<0.5 seconds><2.0 seconds>"
    assert decode_item(one.item.raw)["timestamps"].data == [0.5, 2.0]


def test_a_video_file_gives_its_sampled_frames():
    av = pytest.importorskip("av")
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=8)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for level in range(32):
            frame = av.VideoFrame.from_image(Image.new("RGB", (64, 64), (level * 8,) * 3))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    url = "data:video/mp4;base64," + base64.b64encode(out.getvalue()).decode()
    (light,) = prepare([Media("video", url)], tensors=False)
    (full,) = prepare([Media("video", url)])
    assert light.expansion == full.expansion
    fields = decode_item(full.item.raw)
    assert fields["video_grid_thw"].data.array()[0] == 4  # 4 s at 2 frames a second, two a step
    assert fields["second_per_grid_ts"].data.array() == 0.25
    with pytest.raises(InvalidRequest):
        prepare([Media("video", "data:video/mp4;base64,AAAA", param="p")])


def test_limits_name_the_part():
    few = MediaSettings(max_items=1)
    with pytest.raises(InvalidRequest, match="at most 1") as caught:
        prepare([image_of(60, 60), image_of(61, 61)], settings=few)
    assert caught.value.param == "messages[0].content[61]"
    with pytest.raises(InvalidRequest, match="no audio") as caught:
        prepare([Media("audio", "data:audio/wav;base64,AAAA", param="q")])
    assert caught.value.param == "q"
    with pytest.raises(InvalidRequest, match="too long for this model") as caught:
        prepare([image_of(1200, 4)])
    assert caught.value.param == "messages[0].content[1200]"
    with pytest.raises(InvalidRequest, match="has no URL"):
        prepare([Media("image", "", param="p")])


def test_options_change_the_count_and_the_hash_and_unknown_ones_are_refused():
    plain, small = (
        prepare([image_of(640, 480)], options=options)[0] for options in (None, {"max_pixels": 28 * 28 * 16})
    )
    assert small.expansion.length <= 16 < plain.expansion.length
    assert small.hash != plain.hash
    for options, param in (({"zoom": 2}, "mm_processor_kwargs.zoom"), ({"max_pixels": -1}, "mm_processor_kwargs")):
        with pytest.raises(InvalidRequest) as caught:
            prepare([image_of(64, 64)], options=options)
        assert caught.value.param == param
    with pytest.raises(InvalidRequest) as caught:
        prepare([image_of(64, 64)], io_options={"image": {"rgba_background_color": [0, 0]}})
    assert caught.value.param == "media_io_kwargs.image.rgba_background_color"
    clear = [Media("image", data_url(Image.new("RGBA", (56, 56))))]
    white, black = (prepare(clear, io_options=io)[0] for io in (None, {"image": {"rgba_background_color": [0, 0, 0]}}))
    assert decode_item(white.item.raw)["pixel_values"].data.array().min() == 255
    assert decode_item(black.item.raw)["pixel_values"].data.array().max() == 0
    assert white.hash != black.hash


def test_the_cache_is_bounded_in_bytes():
    from app.multimodal.cache import ByteCache

    cache = ByteCache(100, len)
    for n in range(20):
        cache.put(n, b"x" * 30)
        assert cache.held <= 100
    assert cache.get(19) and cache.get(17) and cache.get(16) is None
    cache.put("large", b"x" * 101)
    assert cache.get("large") is None
    cache.put(19, b"y" * 50)
    assert cache.get(19) == b"y" * 50 and cache.held <= 100
