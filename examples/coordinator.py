"""Render an image request, encode the image on one server, generate on another.

    python examples/coordinator.py picture.jpg "What is this?" --model MODEL
        --render http://localhost:8100 --encode http://localhost:8200 --prefill http://localhost:8300

The render server is ours or ``vllm launch render``. The other two are vLLM servers with an encoder connector, or ours
with a local engine each (docs/multimodal.md): ``transfer_path`` names the same folder, the encode server has
``encode_only = true``. Prints the token ids of the answer.
"""

import argparse
import base64
import mimetypes
from pathlib import Path
from typing import Any

import httpx


def coordinate(
    client: httpx.Client, chat_request: dict[str, Any], *, render: str, encode: str, prefill: str, max_tokens: int = 64
) -> dict[str, Any]:
    """The generate answer to a chat request with images."""
    # 1. Render: token ids, and the tensors of every image.
    rendered = post(client, f"{render}/v1/chat/completions/render", chat_request)
    features = rendered["features"]
    where = {name: features[name] for name in ("mm_hashes", "mm_placeholders")}

    # 2. Encode: the tensors go through the vision encoder, whose embeddings stay where prefill can load them.
    encoded = post(
        client,
        f"{encode}/inference/v1/generate",
        {
            "token_ids": rendered["token_ids"],
            "features": {**where, "kwargs_data": features["kwargs_data"]},
            "sampling_params": {"max_tokens": 1},
        },
    )

    # 3. Prefill: no tensors, only what says how the images are laid out, and where their embeddings are.
    return post(
        client,
        f"{prefill}/inference/v1/generate",
        {
            "token_ids": rendered["token_ids"],
            "features": {**where, "mm_metadata": features["mm_metadata"]},
            "ec_transfer_params": encoded["ec_transfer_params"],
            "sampling_params": {**rendered["sampling_params"], "max_tokens": max_tokens},
        },
    )


def post(client: httpx.Client, url: str, body: dict[str, Any]) -> dict[str, Any]:
    """A JSON answer; an error's own words where it is one."""
    reply = client.post(url, json=body)
    if reply.is_error:
        raise SystemExit(f"{url}: {reply.status_code}: {reply.text}")
    answer: dict[str, Any] = reply.json()
    return answer


def main() -> None:
    """Read the command line, ask, print the token ids."""
    parser = argparse.ArgumentParser(description="Render, encode and prefill an image request on three servers.")
    parser.add_argument("picture", type=Path)
    parser.add_argument("question")
    parser.add_argument("--model", default=None)
    parser.add_argument("--render", default="http://localhost:8100")
    parser.add_argument("--encode", default="http://localhost:8200")
    parser.add_argument("--prefill", default="http://localhost:8300")
    parser.add_argument("--max-tokens", type=int, default=64)
    given = parser.parse_args()
    kind = mimetypes.guess_type(given.picture)[0] or "image/png"
    url = f"data:{kind};base64," + base64.b64encode(given.picture.read_bytes()).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": given.question}]
    chat_request = {"model": given.model, "messages": [{"role": "user", "content": content}], "temperature": 0}
    with httpx.Client(timeout=120) as client:
        answer = coordinate(
            client,
            chat_request,
            render=given.render,
            encode=given.encode,
            prefill=given.prefill,
            max_tokens=given.max_tokens,
        )
    print(answer["choices"][0]["token_ids"])


if __name__ == "__main__":
    main()
