"""The local engine over the features of every family: the ids of transformers, called with its own pixels."""

import asyncio
import copy
from typing import Any

import numpy as np
import pytest

from app.engines.local import vision_families
from app.engines.local.vision import MediaInput
from app.errors import InvalidRequest, Unsupported
from app.multimodal import transforms
from app.multimodal.items import Batched, Field, Tensor, encode_item, to_base64
from app.multimodal.processor import ItemSize, Pixels, ProcessorContext
from plugins.gemma3.processor import Gemma3Processor
from plugins.idefics3.processor import Idefics3Processor
from plugins.llava.processor import LlavaNextProcessor, llava
from plugins.pixtral.processor import Mistral3Processor
from tests.engines.served import request
from tests.engines.tiny import collect, tiny_engine
from tests.engines.tiny_families import CONFIGS, END, IMAGE, PINPOINTS, START, tiny_family_model
from tests.multimodal.pictures import noise

SQUARE = {"height": 56, "width": 56}
CLIP = {"size": {"shortest_edge": 56}, "crop_size": SQUARE}
TILES = {"size": {"longest_edge": 112}, "max_image_size": {"longest_edge": 56}}
# our processor, preprocessor_config.json, and the class of transformers that makes the same of it
FAMILIES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "llava": (llava, CLIP, "llava.image_processing_pil_llava.LlavaImageProcessorPil"),
    "llava_next": (
        LlavaNextProcessor, {**CLIP, "image_grid_pinpoints": PINPOINTS},
        "llava_next.image_processing_pil_llava_next.LlavaNextImageProcessorPil",
    ),
    "pixtral": (
        llava, {"size": {"longest_edge": 112}, "patch_size": 14},
        "pixtral.image_processing_pil_pixtral.PixtralImageProcessorPil",
    ),
    "mistral3": (
        Mistral3Processor, {"size": {"longest_edge": 112}, "patch_size": 28},
        "pixtral.image_processing_pil_pixtral.PixtralImageProcessorPil",
    ),
    "gemma3": (Gemma3Processor, {"size": SQUARE}, "gemma3.image_processing_pil_gemma3.Gemma3ImageProcessorPil"),
    "idefics3": (Idefics3Processor, TILES, "idefics3.image_processing_pil_idefics3.Idefics3ImageProcessorPil"),
    "smolvlm": (Idefics3Processor, TILES, "smolvlm.image_processing_pil_smolvlm.SmolVLMImageProcessorPil"),
}  # fmt: skip
TOKENS = {
    "<image>": IMAGE, "[IMG]": IMAGE, "[IMG_BREAK]": START, "[IMG_END]": END, "<start_of_image>": START,
    "<image_soft_token>": IMAGE, "<end_of_image>": END, "<fake_token_around_image>": START,
}  # fmt: skip
TAKEN = ("pixel_values", "image_sizes", "pixel_attention_mask")


class Case:
    """A family's model for the engine, a copy of it to ask directly, and both sides' processors."""

    def __init__(self, name: str) -> None:
        make, image, theirs = FAMILIES[name]
        self.name = name
        self.model = tiny_family_model(name)
        self.direct = copy.deepcopy(self.model)
        config = {**CONFIGS[name], "image_token_id": IMAGE}
        self.ours = make(
            ProcessorContext(config=config, image=image, token_id=TOKENS.get, encode=lambda text: list(text.encode()))
        )
        module, _, kind = theirs.rpartition(".")
        self.theirs = getattr(__import__(f"transformers.models.{module}", fromlist=[kind]), kind)(**image)

    def prompt(self, *parts: Any) -> tuple[list[int], list[Any], dict[str, Any]]:
        """Ids, images and features of a prompt, as rendering would put them together."""
        ids: list[int] = []
        images = []
        features: dict[str, Any] = {"mm_hashes": {"image": []}, "mm_placeholders": {"image": []},
                                    "kwargs_data": {"image": []}, "mm_metadata": {"image": []}}  # fmt: skip
        for part in parts:
            if isinstance(part, str):
                ids += part.encode()
                continue
            size = ItemSize(*part.size)
            expansion = self.ours.expand("image", size, {})
            fields = self.ours.process("image", Pixels(size, [part]), {})
            light = {key: field for key, field in fields.items() if key in self.ours.metadata}
            place = {"offset": len(ids) + expansion.start, "length": expansion.length}
            for key, value in (
                ("mm_hashes", f"image {len(images)}"), ("mm_placeholders", place),
                ("kwargs_data", to_base64(encode_item(fields))),
                ("mm_metadata", to_base64(encode_item(light)) if light else None),
            ):  # fmt: skip
                features[key]["image"].append(value)
            ids += expansion.ids
            images.append(part)
        return ids, images, features

    def wanted(self, ids: list[int], images: list[Any], tokens: int) -> list[int]:
        """What transformers generates from the pixels of its own processor."""
        import torch

        ask = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
        if images:
            made = self.theirs([images] if self.name in ("idefics3", "smolvlm") else images, return_tensors="pt")
            ask |= {name: made[name] for name in TAKEN if name in made}
        if self.name == "gemma3":
            ask["token_type_ids"] = (ask["input_ids"] == IMAGE).long()
        with torch.inference_mode():
            out = self.direct.generate(
                **ask, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, eos_token_id=None
            )
        return out[0, len(ids) :].tolist()


@pytest.fixture(scope="module", params=FAMILIES)
def case(request: Any) -> Case:
    return Case(request.param)


@pytest.fixture(autouse=True)
def exact_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transforms, "fast", None)


def body(ids: list[int], features: Any = None, **fields: Any) -> Any:
    sampling = {"temperature": 0, "max_tokens": 10, "ignore_eos": True}
    return request(ids, sampling=sampling, features=features, **fields)


def test_pictures_give_the_ids_of_transformers(case: Case) -> None:
    prompts = [
        case.prompt("Look: ", noise(70, 50), "what is it?"),
        case.prompt(noise(100, 40, 1), " and ", noise(40, 90, 2), "? "),
        case.prompt("First ", noise(60, 60, 3), " then words, and more words, and then ", noise(71, 50, 4)),
    ]
    wanted = [case.wanted(ids, images, 10) for ids, images, _ in prompts]
    text = list(b"Text alone.")

    async def run(**options: Any) -> list[list[int]]:
        async with tiny_engine(case.model, **options) as engine:
            bodies = [body(ids, features) for ids, _, features in prompts]
            found = await asyncio.gather(*(collect(engine, one) for one in [*bodies, body(text)]))
            return [one[0].token_ids for one in found]

    wanted.append(case.wanted(text, [], 10))
    for options in ({}, {"max_step_tokens": 7}):
        assert asyncio.run(run(**options)) == wanted
    # The picture matters: another one of the same size gives other ids.
    ids, _, other = case.prompt("Look: ", noise(70, 50, 9), "what is it?")
    assert ids == prompts[0][0]
    assert asyncio.run(generated(case, body(ids, other))) != wanted[0]


async def generated(case: Case, *bodies: Any, **options: Any) -> list[int]:
    """The ids of the last of these requests, one after another."""
    async with tiny_engine(case.model, **options) as engine:
        for one in bodies:
            found = await collect(engine, one)
    ids: list[int] = found[0].token_ids
    return ids


def test_encode_then_prefill_through_a_folder(case: Case, tmp_path: Any) -> None:
    ids, images, features = case.prompt("Look: ", noise(70, 50), "?")
    folder = {"transfer_path": str(tmp_path / "embeddings")}

    async def run() -> list[int]:
        async with tiny_engine(case.model, encode_only=True, **folder) as encode:
            (chunk,) = [chunk async for chunk in encode.generate(body(ids, features))]
        light = {**features, "kwargs_data": None}
        if light["mm_metadata"] == {"image": [None]}:
            light["mm_metadata"] = None
        return await generated(case, body(ids, light, ec_transfer_params=chunk.ec_transfer_params), **folder)

    assert asyncio.run(run()) == case.wanted(ids, images, 10)


def test_a_prompt_that_begins_alike_is_continued_from_its_cache(case: Case) -> None:
    first = case.prompt("Look: ", noise(70, 50), "what?")
    ids, images, features = case.prompt("Look: ", noise(70, 50), "where is it?")
    assert asyncio.run(generated(case, body(first[0], first[2]), body(ids, features))) == case.wanted(ids, images, 10)


def wrong_items() -> list[dict[str, Field]]:
    def pixels(*shape: int, kind: Any = np.float32) -> Field:
        return Field(Tensor.of(np.ones(shape, kind)), Batched())

    return [
        {}, {"pixel_values": pixels(3)}, {"pixel_values": pixels(1, 1, 1)},
        {"pixel_values": pixels(3, 56, 56, kind=np.int64)},
        {"pixel_values": Field(7, Batched())}, {"pixel_values": pixels(2, 3, 5, 7, 9), "image_sizes": pixels(9)},
    ]  # fmt: skip


def test_tensors_of_another_model_are_refused_by_name(case: Case) -> None:
    ids, _, features = case.prompt("Look: ", noise(70, 50), "?")

    async def run() -> None:
        async with tiny_engine(case.model) as engine:
            for fields in wrong_items():
                bad = {**features, "kwargs_data": {"image": [to_base64(encode_item(fields))]}}
                with pytest.raises(InvalidRequest) as caught:
                    await collect(engine, body(ids, bad))
                assert caught.value.param == "features.kwargs_data.image[0]"

    asyncio.run(run())


def test_media_of_a_family_that_is_not_served_are_refused_and_text_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("llava")
    ids, _, features = case.prompt("Look: ", noise(70, 50), "?")
    monkeypatch.setattr(vision_families, "FAMILIES", {})

    async def run() -> list[int]:
        async with tiny_engine(case.model) as engine:
            with pytest.raises(Unsupported) as refused:
                engine.check(body(ids, features))
            assert refused.value.param == "features"
            found = await collect(engine, body(list(b"Text alone.")))
            return found[0].token_ids

    assert asyncio.run(run()) == case.wanted(list(b"Text alone."), [], 10)


def test_blocks_are_never_cut() -> None:
    media = MediaInput(None, None, None, None, 0, "", blocks=((3, 8), (8, 12)))
    assert [media.uncut(0, n) for n in range(1, 14)] == [1, 2, 3, 3, 3, 3, 3, 8, 8, 8, 8, 12, 13]
    assert [media.uncut(3, 1), media.uncut(5, 1), media.uncut(5, 4), media.uncut(12, 1)] == [5, 3, 3, 1]
    assert media.block_ids(10, "cpu").tolist() == [-1, -1, -1, 0, 0, 0, 0, 0, 1, 1]
