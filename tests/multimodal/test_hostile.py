"""What hostile callers send: refused in time, memory bounded, others served meanwhile."""

import asyncio
import base64
import json
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from app.errors import BadMedia
from app.multimodal.address_guard import AddressGuard
from app.multimodal.fetch import Fetcher
from app.settings import MediaSettings
from tests.multimodal.pictures import chat, data_url, encoded, image_part, noise, picture_url

CHAT = "/v1/chat/completions/render"


def refused(client: Any, body: Any, *status: int) -> Any:
    reply = client.post(CHAT, json=body)
    assert reply.status_code in (status or (400,)), reply.text
    error = reply.json()["error"]
    assert error["param"].startswith("messages[0].content[0].image_url")
    return error


class Site:
    """A server on a loopback port that answers every connection with ``answer(connection, path)``."""

    def __init__(self, answer: Callable[[socket.socket, str], None]) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.paths: list[str] = []
        self.answer = answer
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                path = connection.recv(65536).split(b" ")[1].decode()
                self.paths.append(path)
                self.answer(connection, path)
        except OSError:
            pass


@contextmanager
def site(answer: Callable[[socket.socket, str], None]) -> Iterator[Site]:
    found = Site(answer)
    try:
        yield found
    finally:
        found.listener.close()


def picture(connection: socket.socket, path: str) -> None:
    data = encoded(noise(60, 60))
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data)


@pytest.fixture(scope="module")
def guarded(serve_vision: Any) -> Any:
    """A server that may ask one loopback address, no other, and not for long."""
    media = {"allowed_networks": ["127.0.0.1/32"], "timeout_s": 1, "max_bytes": 300_000}
    return serve_vision(ISTHMUS_MEDIA=json.dumps(media))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.8.8.8", "localhost", "169.254.169.254", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1",
        "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[fe80::1]",
        "[fd00::1]", "[2002:7f00:1::]", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "localhost.",
        "224.0.0.1", "255.255.255.255",
    ],
)  # fmt: skip
def test_b76_addresses_that_are_not_public(vision_client: Any, host: str) -> None:
    with site(picture) as own:
        error = refused(vision_client, chat(image_part(f"http://{host}:{own.port}/latest/meta-data")), 400, 422)
        assert own.paths == []
    # The text tells nothing of what is at the address.
    other = refused(vision_client, chat(image_part(f"http://{host}:1/")), 400, 422)
    assert other["message"] == error["message"]


@pytest.mark.parametrize(
    "target",
    ["http://127.0.0.2:{port}/", "http://[::1]:{port}/", "http://169.254.169.254/", "file:///etc/passwd", "//10.0.0.1/",
     "gopher://127.0.0.1/", "http://2130706434:{port}/"],
)  # fmt: skip
def test_b76_redirects_to_them(guarded: Any, target: str) -> None:
    def redirect(connection: socket.socket, path: str) -> None:
        location = target.format(port=own.port).encode()
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % location)

    with site(redirect) as own:
        refused(guarded, chat(image_part(f"http://127.0.0.1:{own.port}/start")), 422)
        assert own.paths == ["/start"]


def test_b76_a_redirect_without_end_and_an_allowed_one(guarded: Any) -> None:
    def answer(connection: socket.socket, path: str) -> None:
        if path == "/good":
            picture(connection, path)
            return
        onward = b"/good" if path == "/once" else b"/again"
        connection.sendall(b"HTTP/1.1 307 Go\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % onward)

    with site(answer) as own:
        refused(guarded, chat(image_part(f"http://127.0.0.1:{own.port}/loop")), 422)
        assert len(own.paths) <= 7
        reply = guarded.post(CHAT, json=chat(image_part(f"http://127.0.0.1:{own.port}/once")))
        assert reply.status_code == 200


def test_b76_a_name_that_changes_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolved once and pinned: what the name says a moment later is never asked."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    async def fetch(url: str, networks: list[str]) -> bytes:
        fetcher = Fetcher(MediaSettings(), guard=AddressGuard(allowed_networks=networks, resolve=resolve))
        try:
            return await fetcher.fetch(url, param="p")
        finally:
            await fetcher.close()

    with site(picture) as own:
        url = f"http://rebind.example:{own.port}/x.png"
        assert asyncio.run(fetch(url, ["127.0.0.1/32"])).startswith(b"\x89PNG")
        assert asked == ["rebind.example"] and own.paths == ["/x.png"]
        with pytest.raises(BadMedia):  # the second look-up says 127.0.0.2
            asyncio.run(fetch(url, ["127.0.0.1/32"]))
        assert own.paths == ["/x.png"]


def test_b76_one_bad_address_among_good_ones() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.1"]

    with pytest.raises(BadMedia):
        asyncio.run(AddressGuard(resolve=resolve).address("mixed.example", 80, param="p"))


def slow(connection: socket.socket, path: str) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" if path == "/body" else b"HTTP/1.1 2")
    for _ in range(100):
        time.sleep(0.1)
        connection.sendall(b"x")


def endless(connection: socket.socket, path: str) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"10000\r\n" + bytes(65536) + b"\r\n")


def announced(connection: socket.socket, path: str) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")


def zipped(connection: socket.socket, path: str) -> None:
    body = zlib.compress(bytes(10**6))
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


@pytest.mark.parametrize(
    ("answer", "path"),
    [(slow, "/body"), (slow, "/head"), (endless, "/"), (announced, "/"), (zipped, "/")],
    ids=["slow body", "slow head", "endless", "announced", "compressed"],
)
def test_bodies_that_never_end_are_left_in_time_and_others_are_served(guarded: Any, answer: Any, path: str) -> None:
    with site(answer) as own:
        done: list[Any] = []
        body = chat(image_part(f"http://127.0.0.1:{own.port}{path}"))
        asking = threading.Thread(target=lambda: done.append(refused(guarded, body, 422)))
        asking.start()
        assert guarded.post(CHAT, json=chat("Hi")).status_code == 200
        asking.join(10)
        assert len(done) == 1


def test_ten_thousand_items_are_refused_before_any_is_read(vision_client: Any) -> None:
    with site(picture) as own:
        parts = [image_part(f"http://127.0.0.1:{own.port}/{n}") for n in range(10_000)]
        reply = vision_client.post(CHAT, json=chat(*parts))
        assert reply.status_code == 400 and reply.json()["error"]["param"] == "messages[0].content[999].image_url.url"
        assert own.paths == []


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *more: bytes) -> bytes:
    """A PNG whose header says so; its pixels are zeros, as many as it says, in a few bytes."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    packer = zlib.compressobj(9)
    row = bytes(width + 1)
    pixels = b"".join([*(packer.compress(row) for _ in range(min(height, 2000))), packer.flush()])
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(more) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def resized(data: bytes, old: bytes, new: bytes) -> bytes:
    """A file whose header claims another size."""
    assert data.count(old) >= 1
    return data.replace(old, new, 1)


SIDE = 60_000


def bombs() -> dict[str, bytes]:
    """Small files that claim 3.6 billion pixels."""
    small = noise(16, 16)
    jpeg = encoded(small, "JPEG")
    at = jpeg.index(b"\xff\xc0") + 5
    webp = encoded(Image.new("RGBA", (16, 16)), "WEBP", lossless=True)
    size = webp.index(b"VP8L") + 9
    extended = b"VP8X" + struct.pack("<I", 10) + bytes(4) + struct.pack("<I", 16_382)[:3] * 2 + webp[12:]
    return {
        "PNG": png(SIDE, SIDE),
        "JPEG": jpeg[:at] + struct.pack(">HH", SIDE, SIDE) + jpeg[at + 4 :],
        "GIF": resized(encoded(small.convert("P"), "GIF"), b"\x10\x00\x10\x00", struct.pack("<HH", SIDE, SIDE)),
        "BMP": resized(encoded(small, "BMP"), struct.pack("<ii", 16, 16), struct.pack("<ii", SIDE, SIDE)),
        "TIFF": tiff(SIDE, SIDE),
        "WEBP": webp[:size] + struct.pack("<I", 16_382 | 16_382 << 14) + webp[size + 4 :],
        "WEBP extended": b"RIFF" + struct.pack("<I", len(extended) + 4) + b"WEBP" + extended,
        "AVIF": avif(small),
    }


def tiff(width: int, height: int) -> bytes:
    """One strip that claims to hold everything, deflated."""
    data = zlib.compress(bytes(100_000))
    tags = [(256, 4, width), (257, 4, height), (258, 3, 8), (259, 3, 8), (262, 3, 1), (273, 4, 200), (277, 3, 1),
            (278, 4, height), (279, 4, len(data))]  # fmt: skip
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", tag, kind, 1, v) for tag, kind, v in tags)
    head = b"II*\x00" + struct.pack("<I", 8) + directory + bytes(4)
    return head + bytes(200 - len(head)) + data


def avif(image: Image.Image) -> bytes:
    try:
        data = encoded(image, "AVIF")
    except (KeyError, OSError):
        return b""
    return resized(
        data, b"ispe\x00\x00\x00\x00" + struct.pack(">II", 16, 16), b"ispe" + struct.pack(">III", 0, SIDE, SIDE)
    )


@pytest.mark.parametrize("name", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "WEBP extended", "AVIF"])
@pytest.mark.parametrize("payload", ["tensors", "none"])
def test_b80_a_size_beyond_the_limit_is_refused_from_the_header(vision_client: Any, name: str, payload: str) -> None:
    data = bombs()[name]
    if not data:
        pytest.skip("this Pillow writes no AVIF")
    assert len(data) < 200_000
    refused(vision_client, chat(image_part(data_url(data)), mm_payload=payload))


def test_b80_the_tiny_png_of_the_report(serve_vision: Any) -> None:
    client = serve_vision(ISTHMUS_MEDIA='{"max_pixels": 10000000}')
    error = refused(client, chat(image_part(data_url(png(20_000, 20_000)))))
    assert "20000 x 20000" in error["message"]


def frames(format: str, count: int) -> bytes:
    pictures = [Image.new("RGB", (400, 400), (n % 256, n // 256, 0)) for n in range(count)]
    return encoded(pictures[0], format, save_all=True, append_images=pictures[1:])


HOSTILE = Path(__file__).with_name("hostile_memory.py")


def test_decoding_is_bounded_in_memory(vision_folder: Path) -> None:
    """Files within the pixel limit that unpack to much more than their pixels, in a process of their own."""
    huge = zlib.compress(bytes(300_000_000), 9)
    text = chunk(b"zTXt", b"Comment\0\0" + huge)
    profile = chunk(b"iCCP", b"icc\0\0" + huge)
    cases = {
        "zTXt": png(64, 64, text),
        "iCCP": png(64, 64, profile),
        "iTXt": png(64, 64, chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + huge)),
        "GIF frames": frames("GIF", 300),
        "WEBP frames": frames("WEBP", 100),
        "APNG frames": frames("PNG", 300),
        "TIFF strip": tiff(12_000, 12_000),
        "truncated JPEG": encoded(Image.new("RGB", (9_000, 9_000)), "JPEG")[:5000],
    }
    urls = {name: data_url(data) for name, data in cases.items()}
    done = subprocess.run(
        [sys.executable, str(HOSTILE), str(vision_folder)],
        input=json.dumps(urls), capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == set(cases)
    print(found)
    for name, (status, grown) in found.items():
        assert status in (200, 400), name
        assert grown < 700, f"{name}: {grown} MB"


def test_polyglots_are_what_their_bytes_say(vision_client: Any) -> None:
    html = b"<script>alert(1)</script>"
    script = b"GIF89a=1;alert(1)//" + bytes(40)
    zipped = encoded(noise(60, 60)) + b"PK\x03\x04" + bytes(100)
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\nsystemdict /file known { (id) run } if"
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>"
    for data in (html, script, postscript, svg, b"BM" + bytes(60), b"%PDF-1.7", b"\0" * 1000, b"P6 1 1 255 abc"):
        refused(vision_client, chat(image_part(data_url(data))))
    good = vision_client.post(CHAT, json=chat(image_part(data_url(zipped))))
    assert good.status_code == 200  # a picture with something behind it is a picture


def test_one_image_a_thousand_times_is_read_once(vision_client: Any) -> None:
    part = image_part(picture_url(60, 60))
    reply = vision_client.post(CHAT, json=chat(*[part] * 500, mm_payload="none"))
    assert reply.status_code == 200
    assert len(set(reply.json()["features"]["mm_hashes"]["image"])) == 1


def test_base64_bombs(guarded: Any) -> None:
    large = "data:image/png;base64," + base64.b64encode(bytes(400_000)).decode()
    refused(guarded, chat(image_part(large)), 422)
    refused(guarded, chat(image_part(large + "=" * 100_000)), 422)
    nested = "data:image/png;base64," + "data:image/png;base64," * 1000
    refused(guarded, chat(image_part(nested)))
