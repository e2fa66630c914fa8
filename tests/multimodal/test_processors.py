"""Placeholder counts and pixels of every family equal those of transformers' own image processors (B83)."""

import itertools
import random

import numpy as np
import pytest
from PIL import Image

from app.multimodal import transforms
from app.multimodal.processor import ItemSize, Pixels, ProcessorContext
from plugins.gemma3.processor import Gemma3Processor
from plugins.idefics3.processor import Idefics3Processor
from plugins.llava.processor import LlavaNextProcessor, LlavaProcessor
from plugins.pixtral.processor import Mistral3Processor, PixtralProcessor
from plugins.qwen_vl.processor import Qwen2VLProcessor, Qwen3VLProcessor, Qwen25VLProcessor

transformers = pytest.importorskip("transformers")

TOKENS = {
    "<image>": 1, "[IMG]": 1, "[IMG_BREAK]": 2, "[IMG_END]": 3, "<start_of_image>": 1, "<image_soft_token>": 2,
    "<end_of_image>": 3, "<fake_token_around_image>": 4, "<|vision_start|>": 1, "<|vision_end|>": 2,
    "<|image_pad|>": 3, "<|video_pad|>": 4, "\n": 11, "\n\n": 12, "\n\n\n": 13,
}  # fmt: skip
CLIP = {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}}
PATCH_14 = {"vision_config": {"patch_size": 14}}
QWEN3 = {"patch_size": 16, "size": {"shortest_edge": 65536, "longest_edge": 16777216}, "image_mean": [0.5] * 3}


def pil_class(module, name):
    return getattr(__import__(f"transformers.models.{module}", fromlist=[name]), name)


FAMILIES = {
    "qwen2-vl": (Qwen2VLProcessor, {}, {}, "qwen2_vl.image_processing_pil_qwen2_vl", "Qwen2VLImageProcessorPil"),
    "qwen3-vl": (Qwen3VLProcessor, {}, QWEN3, "qwen2_vl.image_processing_pil_qwen2_vl", "Qwen2VLImageProcessorPil"),
    "llava": (LlavaProcessor, PATCH_14, CLIP, "llava.image_processing_pil_llava", "LlavaImageProcessorPil"),
    "llava-next": (
        LlavaNextProcessor, PATCH_14, CLIP, "llava_next.image_processing_pil_llava_next", "LlavaNextImageProcessorPil",
    ),
    "pixtral": (
        PixtralProcessor, PATCH_14 | {"spatial_merge_size": 2}, {"size": {"longest_edge": 1540}, "patch_size": 28},
        "pixtral.image_processing_pil_pixtral", "PixtralImageProcessorPil",
    ),
    "mistral3": (
        Mistral3Processor, PATCH_14 | {"spatial_merge_size": 2}, {"size": {"longest_edge": 1540}, "patch_size": 28},
        "pixtral.image_processing_pil_pixtral", "PixtralImageProcessorPil",
    ),
    "gemma3": (
        Gemma3Processor, {}, {"size": {"height": 896, "width": 896}}, "gemma3.image_processing_pil_gemma3",
        "Gemma3ImageProcessorPil",
    ),
    "idefics3": (
        Idefics3Processor, PATCH_14, {}, "idefics3.image_processing_pil_idefics3", "Idefics3ImageProcessorPil",
    ),
    "smolvlm": (
        Idefics3Processor, PATCH_14, {"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}},
        "smolvlm.image_processing_pil_smolvlm", "SmolVLMImageProcessorPil",
    ),
}  # fmt: skip


def context(config, image):
    # one id a character, and runs of newlines as one token, like the tokenizers of these families
    def encode(text):
        if text in TOKENS:
            return [TOKENS[text]]
        return [1000 + ord(c) for c in text]

    return ProcessorContext(config=config, image=image, token_id=TOKENS.get, encode=encode)


def picture(width, height):
    noise = np.random.default_rng(width * height).integers(0, 255, (height // 9 + 2, width // 9 + 2, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((width, height))


def odd_sizes(count, seed):
    draw = random.Random(seed)
    bases = [28, 31, 60, 161, 333, 719, 1000]
    return [(draw.choice(bases) + draw.randrange(9), draw.randrange(28, 900)) for _ in range(count)]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    ours, config, image, module, name = FAMILIES[request.param]
    theirs = dict(image)
    return request.param, ours(context(config, image)), pil_class(module, name)(**theirs)


def reference_pixels(name, theirs, image):
    raw = {"do_normalize": False, "do_rescale": False} if "qwen" in name or name == "mistral3" else {}
    out = theirs(image, return_tensors="np", **raw)
    values = np.asarray(out["pixel_values"])
    return (values if "qwen" in name or name == "gemma3" else values[0]), out


SIZES = [*odd_sizes(6, 83), (161, 184), (30, 150), (150, 30), (336, 336)]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_pixels_equal_those_of_transformers(monkeypatch, family, width, height):
    monkeypatch.setattr(transforms, "fast", None)
    name, ours, theirs = family
    image = picture(width, height)
    size = ItemSize(width, height)
    want, out = reference_pixels(name, theirs, image)
    fields = ours.process("image", Pixels(size, [image]), {})
    got = fields["pixel_values"].data.array()
    assert got.shape == want.shape
    assert np.abs(got.astype(np.float64) - want.astype(np.float64)).max() < 1e-5
    for other in set(fields) & set(out) - {"pixel_values"}:
        np.testing.assert_array_equal(fields[other].data.array(), np.asarray(out[other])[0])


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_fast_resizer_agrees_within_resampling_error(monkeypatch, family, width, height):
    """Two levels of 255 where a picture is resized once, and nearly always none; Idefics resizes up to three times."""
    pytest.importorskip("cykooz_resizer")
    _, ours, _ = family
    pixels = Pixels(ItemSize(width, height), [picture(width, height)])
    quick = ours.process("image", pixels, {})["pixel_values"].data.array().astype(np.float64)
    monkeypatch.setattr(transforms, "fast", None)
    exact = ours.process("image", pixels, {})["pixel_values"].data.array().astype(np.float64)
    # one level of 255 in the family's own values, which are normalised by a deviation of about a quarter or a half
    level = 1.0 if exact.max() > 10 else 1 / 255 / 0.26
    assert np.abs(quick - exact).max() <= 4 * level
    assert np.abs(quick - exact).mean() < 0.2 * level


def test_counts_equal_the_reference_over_many_sizes(family):
    """Counts follow from sizes alone, so thousands of them are cheap; the formulas are transformers' own functions."""
    name, ours, theirs = family
    borders = itertools.product((28, 55, 56, 57, 336, 337), repeat=2)
    for width, height in [*odd_sizes(400, 11), *borders]:
        expansion = ours.expand("image", ItemSize(width, height), {})
        count = sum(token in expansion.embed_ids for token in expansion.ids)
        assert count == reference_count(name, theirs, width, height), (width, height)
        assert expansion.start >= 0 and expansion.start + expansion.length <= len(expansion.ids)


def reference_count(name, theirs, width, height):
    if "qwen" in name:
        return theirs.get_number_of_image_patches(height, width, {}) // 4
    if name == "llava":
        return (336 // 14) ** 2
    if name == "gemma3":
        return 256
    if name in ("pixtral", "mistral3"):
        module = __import__("transformers.models.pixtral.image_processing_pil_pixtral", fromlist=["x"])
        rows, columns = module.get_resize_output_image_size(np.zeros((3, height, width)), (1540, 1540), (28, 28))
        return rows // 28 * (columns // 28)
    if name == "llava-next":
        kind = pil_class("llava_next.processing_llava_next", "LlavaNextProcessor")
        bare = kind.__new__(kind)
        bare.image_processor, bare.patch_size, bare.num_additional_image_tokens = theirs, 14, 1
        return bare._get_number_of_features(height, width, 336, 336) - 1
    side = theirs.max_image_size["longest_edge"]
    patches, *_ = theirs.get_number_of_image_patches(height, width, {})
    return patches * (side // 14) ** 2 // 4


def test_the_same_ratio_always_fits():
    """Extreme but legal ratios stay within the bounds of pixels."""
    ours = Qwen25VLProcessor(context({}, {"min_pixels": 3136, "max_pixels": 12845056}))
    for width, height in [(28, 5000), (5000, 28), (1, 200), (200, 1), (20000, 9000)]:
        expansion = ours.expand("image", ItemSize(width, height), {})
        assert 1 <= expansion.length <= 12845056 // 28**2
