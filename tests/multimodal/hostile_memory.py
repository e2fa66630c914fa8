"""Render each of the images on stdin (name to data URL) and say how far the process's peak memory grew, in MB.

Run as a program with the model's folder; prints ``{name: [status, megabytes]}``.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from litestar.testing import TestClient

from app.asgi import create_app
from tests.multimodal.pictures import chat, image_part, picture_url

STATUS = Path("/proc/self/status")


def megabytes(field: str) -> int:
    return next(int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith(field)) // 1024


def main() -> None:
    os.environ.update(
        ISTHMUS_CONFIG=os.devnull,
        ISTHMUS_DATABASE_URL="",
        ISTHMUS_MODELS=json.dumps([{"name": "vl", "source": sys.argv[1], "tokenizer": "hf"}]),
        # What is measured is decoding, not the tensors of 144 million pixels.
        ISTHMUS_MEDIA='{"cache_bytes": 0}',
    )
    found = {}
    with TestClient(create_app(), raise_server_exceptions=False) as client:
        client.post("/v1/chat/completions/render", json=chat(image_part(picture_url(60, 60))))
        for name, url in json.load(sys.stdin).items():
            Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
            before = megabytes("VmRSS")
            reply = client.post("/v1/chat/completions/render", json=chat(image_part(url)))
            found[name] = (reply.status_code, megabytes("VmHWM") - before)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
