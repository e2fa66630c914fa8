"""Pictures for tests, and requests that carry them."""

import base64
import io
from typing import Any

from PIL import Image


def encoded(image: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64," + base64.b64encode(data).decode()


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    """An RGB picture that no resampling turns into an even one; the same for the same arguments."""
    import numpy as np

    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def picture_url(width: int, height: int, seed: int = 0, format: str = "PNG") -> str:
    return data_url(encoded(noise(width, height, seed), format), f"image/{format.lower()}")


def image_part(url: Any, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}, **more}


def chat(*parts: Any, model: str = "vl", **more: Any) -> dict[str, Any]:
    """A chat request of one user message."""
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 8, **more}
