"""The local engine over features: the same ids as transformers called directly with the same pictures."""

import asyncio
import copy
from typing import Any

import pytest

from app.errors import InvalidRequest, Unsupported
from app.multimodal.items import encode_item, to_base64
from app.multimodal.processor import ItemSize, Pixels, ProcessorContext
from app.protocol.generate import Placeholder
from plugins.qwen_vl import processor as qwen
from tests.engines.served import request
from tests.engines.tiny import collect, tiny_engine, tiny_model
from tests.engines.tiny_vision import END, IMAGE, START, VIDEO, tiny_vision_model
from tests.multimodal.pictures import noise

PROCESSORS = {
    "qwen2_vl": qwen.Qwen2VLProcessor,
    "qwen2_5_vl": qwen.Qwen25VLProcessor,
    "qwen3_vl": qwen.Qwen3VLProcessor,
    "qwen3_vl_moe": qwen.Qwen3VLProcessor,
}
TOKENS = {"<|vision_start|>": START, "<|vision_end|>": END, "<|image_pad|>": IMAGE, "<|video_pad|>": VIDEO}
SMALL = {"min_pixels": 1024, "max_pixels": 8192}


@pytest.fixture(scope="module", params=sorted(PROCESSORS))
def family(request: Any) -> Any:
    model = tiny_vision_model(request.param)
    context = ProcessorContext(config={}, image=SMALL, token_id=TOKENS.get, encode=lambda text: list(text.encode()))
    return model, copy.deepcopy(model), PROCESSORS[request.param](context)


@pytest.fixture(scope="module")
def qwen25() -> Any:
    model = tiny_vision_model()
    context = ProcessorContext(config={}, image=SMALL, token_id=TOKENS.get, encode=lambda text: list(text.encode()))
    return model, copy.deepcopy(model), qwen.Qwen25VLProcessor(context)


class Prompt:
    """Text and media, as rendering would put them together; ``items`` are ``(modality, frames)``."""

    def __init__(self, processor: Any, *parts: Any) -> None:
        self.ids: list[int] = []
        self.items: list[tuple[str, dict[str, Any]]] = []
        self.places: list[Placeholder] = []
        for part in parts:
            if isinstance(part, str):
                self.ids += part.encode()
                continue
            frames = part if isinstance(part, list) else [part]
            modality = "video" if isinstance(part, list) else "image"
            size = ItemSize(*frames[0].size, len(frames), 1.0, tuple(range(len(frames))))
            expansion = processor.expand(modality, size, {})
            self.ids.append(START)
            self.places.append(Placeholder(len(self.ids), expansion.length))
            self.ids += [*expansion.ids, END]
            self.items.append((modality, processor.process(modality, Pixels(size, frames), {})))

    def features(self, *, data: bool = True, metadata: bool = False) -> dict[str, Any]:
        out: dict[str, Any] = {"mm_hashes": {}, "mm_placeholders": {}, "kwargs_data": {}, "mm_metadata": {}}
        for at, ((modality, fields), place) in enumerate(zip(self.items, self.places, strict=True)):
            light = {name: field for name, field in fields.items() if "pixel" not in name}
            out["mm_hashes"].setdefault(modality, []).append(f"hash-{at}-{hash(place)}")
            out["mm_placeholders"].setdefault(modality, []).append({"offset": place.offset, "length": place.length})
            out["kwargs_data"].setdefault(modality, []).append(to_base64(encode_item(fields)))
            out["mm_metadata"].setdefault(modality, []).append(to_base64(encode_item(light)))
        return {**out, "kwargs_data": out["kwargs_data"] if data else None,
                "mm_metadata": out["mm_metadata"] if metadata else None}  # fmt: skip

    def body(self, *, max_tokens: int = 12, features: dict[str, Any] | None = None, **fields: Any) -> Any:
        sampling = {"temperature": 0, "max_tokens": max_tokens, "ignore_eos": True}
        return request(self.ids, sampling=sampling, features=features or self.features(), **fields)


def reference(model: Any, prompt: Prompt, max_tokens: int = 12) -> list[int]:
    """What transformers generates, its pixels rescaled and normalised here, in its own order."""
    import torch

    inputs: dict[str, list[Any]] = {}
    types = torch.zeros(1, len(prompt.ids), dtype=torch.int)
    for _modality, fields in prompt.items:
        for name, field in fields.items():
            if name == "timestamps":
                continue
            value = torch.from_numpy(field.data.array().copy())
            if name.startswith("pixel"):
                value = value.float().view(len(value), 3, -1) / 255
                mean = torch.tensor([0.48145466, 0.4578275, 0.40821073])[None, :, None]
                std = torch.tensor([0.26862954, 0.26130258, 0.27577711])[None, :, None]
                value = ((value - mean) / std).flatten(1)
            else:
                value = value[None]
            inputs.setdefault(name, []).append(value)
    for place, (_modality, _) in zip(prompt.places, prompt.items, strict=True):
        for at in range(place.offset, place.offset + place.length):
            types[0, at] = {IMAGE: 1, VIDEO: 2}.get(prompt.ids[at], 0)
    with torch.inference_mode():
        out = model.generate(
            input_ids=torch.tensor([prompt.ids]), mm_token_type_ids=types, max_new_tokens=max_tokens,
            min_new_tokens=max_tokens, do_sample=False, eos_token_id=None,
            **{name: torch.cat(values) for name, values in inputs.items()},
        )  # fmt: skip
    return out[0, len(prompt.ids) :].tolist()


def generate(model: Any, bodies: list[Any], **options: Any) -> list[Any]:
    async def run() -> list[Any]:
        async with tiny_engine(model, **options) as engine:
            return await asyncio.gather(*(collect(engine, body) for body in bodies))

    return asyncio.run(run())


def test_pictures_and_text_give_the_ids_of_transformers(family):
    model, direct, processor = family
    frames = [noise(60, 60, seed) for seed in range(4)]
    prompts = [
        Prompt(processor, "Look: ", noise(70, 50), "what is it?"),
        Prompt(processor, noise(90, 40, 1), " and ", noise(40, 90, 2), "?"),
        Prompt(processor, "Text alone."),
        Prompt(processor, "First ", noise(60, 60, 3), " then words, and more words, and then ", noise(70, 50), "!"),
        Prompt(processor, "A film: ", frames, " with a still ", noise(50, 50, 5), "."),
    ]
    wanted = [reference(direct, prompt) for prompt in prompts]
    bodies = [
        prompt.body()
        if prompt.items
        else request(prompt.ids, sampling={"temperature": 0, "max_tokens": 12, "ignore_eos": True})
        for prompt in prompts
    ]
    for options in ({}, {"max_step_tokens": 7}):
        found = generate(model, bodies, **options)
        assert [one[0].token_ids for one in found] == wanted


def test_equal_ids_with_other_pictures_share_no_cache(qwen25):
    model, direct, processor = qwen25
    one, other = (Prompt(processor, "Look: ", noise(70, 50, seed), "?") for seed in (1, 2))
    assert one.ids == other.ids

    async def run() -> list[Any]:
        async with tiny_engine(model) as engine:
            return [await collect(engine, prompt.body()) for prompt in (one, other, one)]

    first, second, again = asyncio.run(run())
    assert first[0].token_ids == reference(direct, one) != second[0].token_ids == reference(direct, other)
    assert again[0].token_ids == first[0].token_ids
    assert second[0].cached_tokens == 0 < again[0].cached_tokens


def test_an_item_without_tensors_is_taken_from_the_cache_under_its_hash_and_salt(qwen25):
    model, direct, processor = qwen25
    prompt = Prompt(processor, "Look: ", noise(70, 50), "?")
    empty = {**prompt.features(), "kwargs_data": None}

    async def run() -> Any:
        async with tiny_engine(model) as engine:
            with pytest.raises(InvalidRequest) as caught:
                await collect(engine, prompt.body(features=empty))
            assert caught.value.param == "features.mm_hashes.image[0]"
            await collect(engine, prompt.body())
            found = await collect(engine, prompt.body(features=empty))
            with pytest.raises(InvalidRequest):
                await collect(engine, prompt.body(features=empty, cache_salt="another tenant"))
            return found

    assert asyncio.run(run())[0].token_ids == reference(direct, prompt)


def test_encode_then_prefill_through_a_folder(qwen25, tmp_path):
    model, direct, processor = qwen25
    prompt = Prompt(processor, "Look: ", noise(70, 50), " or ", noise(50, 70, 3), "?")
    folder = {"transfer_path": str(tmp_path / "embeddings")}

    async def run() -> tuple[Any, Any]:
        async with tiny_engine(model, encode_only=True, **folder) as encode:
            with pytest.raises(InvalidRequest):
                await collect(encode, request([1, 2]))
            chunks = [chunk async for chunk in encode.generate(prompt.body(max_tokens=1))]
        (chunk,) = chunks
        assert chunk.token_ids == [] and chunk.finish_reason == "length"
        params = chunk.ec_transfer_params
        assert [item["mm_hash"] for item in params["ec_items"]] == prompt.features()["mm_hashes"]["image"]
        async with tiny_engine(model, **folder) as prefill:
            light = prompt.features(data=False, metadata=True)
            found = await collect(prefill, prompt.body(features=light, ec_transfer_params=params))
            stranger = {
                "ec_items": [{"mm_hash": item["mm_hash"], "embedding": "0" * 64} for item in params["ec_items"]]
            }
            for wrong in (stranger, {"ec_items": [{"mm_hash": "x"}]}, {"ec_items": 3}, {"peer": "10.0.0.1"},
                          {"ec_items": [{"mm_hash": "x", "embedding": "../../etc/passwd"}]}):  # fmt: skip
                with pytest.raises(InvalidRequest) as caught:
                    await collect(
                        prefill,
                        prompt.body(features={**light, "mm_hashes": {"image": ["a", "b"]}}, ec_transfer_params=wrong),
                    )
            return found, caught

    found, caught = asyncio.run(run())
    assert found[0].token_ids == reference(direct, prompt)
    assert caught.value.param == "ec_transfer_params"


def test_the_folder_is_bounded(tmp_path):
    from app.engines.local.transfer import TransferFolder

    folder = TransferFolder(str(tmp_path), 250)
    for n in range(5):
        folder.publish(str(n), bytes(100))
        assert folder.fetch(str(n)) == bytes(100)
    assert len(list(tmp_path.iterdir())) == 2 and folder.fetch("0") is None


def test_items_that_do_not_fit_are_refused_by_name(qwen25):
    model, _, processor = qwen25
    prompt, other = Prompt(processor, noise(70, 50), "?"), Prompt(processor, noise(90, 40), "?")
    good = prompt.features()
    short = copy.deepcopy(good)
    short["mm_placeholders"]["image"][0]["length"] -= 1
    cases = [
        ({**good, "kwargs_data": {"image": ["AAAA"]}}, "features.kwargs_data.image[0]"),
        ({**good, "kwargs_data": {"image": ["no base64!"]}}, "features.kwargs_data.image[0]"),
        ({**good, "kwargs_data": {"image": [7]}}, "features.kwargs_data.image[0]"),
        ({**good, "kwargs_data": {"image": [to_base64(encode_item({}))]}}, "features.kwargs_data.image[0]"),
        ({**good, "kwargs_data": other.features()["kwargs_data"]}, "features.mm_placeholders.image[0]"),
        (short, "features.mm_placeholders.image[0]"),
    ]

    async def run() -> None:
        async with tiny_engine(model) as engine:
            for features, param in cases:
                with pytest.raises(InvalidRequest) as caught:
                    await collect(engine, prompt.body(features=features))
                assert caught.value.param == param
            with pytest.raises(Unsupported) as refused:
                engine.check(prompt.body(features={"mm_hashes": {"audio": ["x"]}, "mm_placeholders": {}}))
            assert refused.value.param == "features"
        async with tiny_engine(tiny_model()) as engine:
            with pytest.raises(Unsupported):
                engine.check(prompt.body())

    asyncio.run(run())
