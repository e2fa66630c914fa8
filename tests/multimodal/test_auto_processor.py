"""The generic adapter over a transformers processor made here, against the family's own plugin."""

import json

import numpy as np
import pytest
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from app.errors import InvalidRequest, StartupError
from app.multimodal import transforms
from app.multimodal.processor import ItemSize, Pixels, ProcessorContext
from plugins.auto_processor.processor import TransformersProcessor
from plugins.llava.processor import LlavaNextProcessor

transformers = pytest.importorskip("transformers")

CONFIG = {"image_token_index": 1, "vision_config": {"patch_size": 14}}
IMAGES = {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A LLaVA-NeXT processor over a tiny tokenizer, saved as transformers saves one."""
    from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
    from transformers.models.llava_next.processing_llava_next import LlavaNextProcessor as Theirs

    path = tmp_path_factory.mktemp("llava-next")
    tokenizer = Tokenizer(models.BPE({"[UNK]": 0, "<image>": 1, "x": 2, "Ċ": 3}, [], unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.add_special_tokens(["<image>"])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[UNK]")
    images = LlavaNextImageProcessorPil(**IMAGES)
    theirs = Theirs(
        image_processor=images,
        tokenizer=fast,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    theirs.save_pretrained(path)
    (path / "config.json").write_text(json.dumps({"model_type": "llava_next", **CONFIG}))
    return path, tokenizer


def context(directory, **files):
    path, tokenizer = directory
    return ProcessorContext(
        config=CONFIG,
        source=str(path),
        token_id=tokenizer.token_to_id,
        encode=lambda text: tokenizer.encode(text).ids,
        **files,
    )


@pytest.fixture(scope="module")
def generic(directory):
    return TransformersProcessor(context(directory))


@pytest.mark.parametrize(("width", "height"), [(100, 57), (280, 30), (700, 500)])
def test_it_agrees_with_the_familys_own_plugin(monkeypatch, generic, directory, width, height):
    monkeypatch.setattr(transforms, "fast", None)
    own = LlavaNextProcessor(context(directory, image=IMAGES))
    size = ItemSize(width, height)
    assert generic.expand("image", size, {}) == own.expand("image", size, {})
    noise = np.random.default_rng(width).integers(0, 255, (height, width, 3), dtype=np.uint8)
    pixels = Pixels(size, [Image.fromarray(noise)])
    ours, theirs = own.process("image", pixels, {}), generic.process("image", pixels, {})
    np.testing.assert_allclose(theirs["pixel_values"].data.array(), ours["pixel_values"].data.array(), atol=1e-5)
    assert "image_sizes" in generic.metadata and "pixel_values" not in generic.metadata


def test_options_are_refused_by_name(generic):
    with pytest.raises(InvalidRequest) as caught:
        generic.expand("image", ItemSize(28, 28), {"zoom": 1})
    assert caught.value.param == "mm_processor_kwargs.zoom"


def test_a_directory_without_a_processor_stops_start_up_in_one_line(tmp_path, directory):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(StartupError) as caught:
        TransformersProcessor(
            ProcessorContext(config={}, source=str(tmp_path), token_id=lambda text: None, encode=lambda text: [])
        )
    assert "\n" not in caught.value.message and str(tmp_path) in caught.value.message
