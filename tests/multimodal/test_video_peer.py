"""Frames of videos to the grids and patches of transformers' own video processors, which need torchvision.

Needs ``PEERS=<dir>``, an installation by shared/peers/setup.sh, whose Python has it.
"""

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app.multimodal.processor import ItemSize, Pixels, ProcessorContext, Tensor
from plugins.qwen_vl.processor import Qwen3VLProcessor, Qwen25VLProcessor

PEERS = os.environ.get("PEERS", "")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not PEERS, reason="PEERS is not set")]
OURS = {"qwen2_vl": Qwen25VLProcessor, "qwen3_vl": Qwen3VLProcessor}
ASK = """
import importlib, json, sys, numpy, torch
out = {}
for kind, name in (("qwen2_vl", "Qwen2VLVideoProcessor"), ("qwen3_vl", "Qwen3VLVideoProcessor")):
    module = importlib.import_module(f"transformers.models.{kind}.video_processing_{kind}")
    processor = getattr(module, name)()
    for at, (count, height, width) in enumerate(json.loads(sys.argv[1])):
        frames = numpy.load(sys.argv[2])[f"arr_{at}"]
        found = processor(
            [torch.from_numpy(frames).permute(0, 3, 1, 2)], do_sample_frames=False, do_rescale=False,
            do_normalize=False, cap_pixels_per_frame=False, return_tensors="np",
        )
        out[f"{kind} grid {at}"] = found["video_grid_thw"][0]
        out[f"{kind} pixels {at}"] = found["pixel_values_videos"]
numpy.savez(sys.argv[3], **out)
"""


def shapes() -> list[tuple[int, int, int]]:
    """Frames, height and width: odd ones, small ones, long ones, and many frames."""
    draw = random.Random(5)
    odd = [(draw.randrange(2, 9), draw.randrange(30, 400), draw.randrange(30, 400)) for _ in range(24)]
    return [*odd, (2, 28, 28), (3, 20, 300), (300, 30, 40), (2, 700, 900), (5, 33, 31)]


def context() -> ProcessorContext:
    tokens = {"<|vision_start|>": 1, "<|vision_end|>": 2, "<|image_pad|>": 3, "<|video_pad|>": 4}
    return ProcessorContext(config={}, token_id=tokens.get, encode=lambda text: list(text.encode()))


def test_grids_equal_and_pixels_agree_within_resampling_error(tmp_path: Path) -> None:
    cases = shapes()
    noise = np.random.default_rng(0)
    videos = []
    for count, height, width in cases:
        coarse = noise.integers(0, 256, (count, height // 9 + 2, width // 9 + 2, 3), np.uint8)
        videos.append([Image.fromarray(frame).resize((width, height)) for frame in coarse])
    np.savez(tmp_path / "frames.npz", *[np.stack([np.asarray(frame) for frame in frames]) for frames in videos])
    command = [f"{PEERS}/env/bin/python", "-c", ASK, json.dumps(cases), tmp_path / "frames.npz", tmp_path / "out.npz"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={"PYTHONPATH": f"{PEERS}/tv", "PATH": ""}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    wanted = np.load(tmp_path / "out.npz")
    for kind, make in OURS.items():
        processor: Any = make(context())
        for at, ((count, height, width), frames) in enumerate(zip(cases, videos, strict=True)):
            size = ItemSize(width, height, count, 1.0, tuple(range(count)))
            fields = processor.process("video", Pixels(size, frames), {})
            grid, pixels = fields["video_grid_thw"].data, fields["pixel_values_videos"].data
            assert isinstance(grid, Tensor) and isinstance(pixels, Tensor)
            assert grid.array().tolist() == wanted[f"{kind} grid {at}"].tolist(), (kind, cases[at])
            expansion = processor.expand("video", size, {})
            assert expansion.ids.count(4) == grid.array().prod() // 4
            other = np.abs(pixels.array().astype(int) - wanted[f"{kind} pixels {at}"].astype(int))
            assert other.mean() < 1 and other.max() <= 15, (kind, cases[at])
