"""Media URLs to bytes: what may be fetched, and what may not (B76)."""

import asyncio
import base64
import contextlib
import ipaddress
import os

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadMedia, InvalidRequest
from app.multimodal.address_guard import AddressGuard, is_public
from app.multimodal.data_url import decode, decode_base64
from app.multimodal.fetch import Fetcher
from app.settings import MediaSettings

PUBLIC = "93.184.216.34"


def fetch(url, *, names=None, answer=None, **settings):
    """Fetch with a resolver of our own and a transport that records what was asked of which address."""
    asked = []

    async def resolve(host, port):
        found = (names or {}).get(host, [PUBLIC])
        if callable(found):
            found = found()
        if not found:
            raise OSError
        return found

    async def respond(request):
        asked.append(request)
        reply = answer(request) if answer else httpx.Response(200, stream=httpx.ByteStream(b"bytes"))
        return await reply if asyncio.iscoroutine(reply) else reply

    async def run():
        media = MediaSettings(**settings)
        guard = AddressGuard(media.allowed_domains, media.denied_domains, media.allowed_networks, resolve)
        fetcher = Fetcher(media, guard=guard, transport=httpx.MockTransport(respond))
        try:
            return await fetcher.fetch(url, param="messages[0].content[0].image_url")
        finally:
            await fetcher.close()

    fetch.asked = asked
    return asyncio.run(run())


PRIVATE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1",
    "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
    "::ffff:169.254.169.254", "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b:1::1", "2001:db8::1", "fe80::1%eth0",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused(address):
    assert not is_public(ipaddress.ip_address(address.partition("%")[0]))
    with pytest.raises(BadMedia, match="may not be fetched") as caught:
        fetch("http://media.example/a.png", names={"media.example": [address]})
    assert caught.value.param == "messages[0].content[0].image_url" and not fetch.asked


def test_one_private_address_among_public_ones_is_enough():
    with pytest.raises(BadMedia):
        fetch("http://media.example/a.png", names={"media.example": [PUBLIC, "10.0.0.1"]})


@pytest.mark.parametrize(
    "host", ["2130706433", "0177.0.0.1", "0x7f.1", "127.1", "localhost", "[::1]", "[::ffff:7f00:1]", "LOCALHOST."]
)
def test_odd_spellings_of_loopback_are_judged_by_the_real_resolver(host):
    async def run():
        fetcher = Fetcher(MediaSettings(timeout_s=5))
        try:
            await fetcher.fetch(f"http://{host}:1/x", param="p")
        finally:
            await fetcher.close()

    with pytest.raises((BadMedia, InvalidRequest), match=r"may not|resolved|malformed"):
        asyncio.run(run())


def test_the_connection_goes_to_the_address_that_was_judged():
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    assert fetch("https://media.example:8443/a?b=c", names={"media.example": lambda: next(answers)}) == b"bytes"
    request = fetch.asked[0]
    assert request.url.host == PUBLIC and request.url.port == 8443
    assert request.headers["host"] == "media.example:8443"
    assert request.extensions["sni_hostname"] == "media.example"


def test_every_redirect_is_judged_again():
    def hop(location):
        return lambda request: httpx.Response(302, headers={"location": location})

    for location in ("http://inside.example/", "//inside.example/", "file:///etc/passwd", "ftp://x.example/"):
        with pytest.raises(BadMedia):
            fetch("http://media.example/", names={"inside.example": ["10.0.0.1"]}, answer=hop(location))
    with pytest.raises(BadMedia, match="redirects more"):
        fetch("http://media.example/", answer=hop("/again"))


def test_a_relative_redirect_is_followed():
    def answer(request):
        return (
            httpx.Response(302, headers={"location": "b"})
            if request.url.path == "/a"
            else httpx.Response(200, stream=httpx.ByteStream(b"b"))
        )

    assert fetch("http://media.example/a", answer=answer) == b"b"


def test_domains():
    assert fetch("http://cdn.media.example/", allowed_domains=["media.example"]) == b"bytes"
    for options in ({"allowed_domains": ["other.example"]}, {"denied_domains": ["Media.Example."]}):
        with pytest.raises(BadMedia):
            fetch("http://cdn.media.example/", **options)
    with pytest.raises(BadMedia):
        fetch("http://notmedia.example/", allowed_domains=["media.example"])
    assert fetch("http://media.example/", names={"media.example": ["10.0.0.9"]}, allowed_networks=["10.0.0.0/8"])


def test_sizes_are_bounded():
    async def endless():
        while True:
            yield b"x" * 1000

    for answer in (
        lambda request: httpx.Response(200, content=endless()),
        lambda request: httpx.Response(200, stream=httpx.ByteStream(b"x" * 2000)),
    ):
        with pytest.raises(BadMedia, match="larger than 1500"):
            fetch("http://media.example/", answer=answer, max_bytes=1500)
    with pytest.raises(BadMedia, match="compressed"):
        fetch(
            "http://media.example/",
            answer=lambda request: httpx.Response(200, headers={"content-encoding": "gzip"}, content=b""),
        )


def test_slow_bodies_end():
    async def slow():
        while True:
            await asyncio.sleep(0.01)
            yield b"x"

    with pytest.raises(BadMedia, match="took over"):
        fetch("http://media.example/", answer=lambda request: httpx.Response(200, content=slow()), timeout_s=0.1)


@pytest.mark.parametrize("status", [404, 500, 304])
def test_other_statuses(status):
    with pytest.raises(BadMedia, match=str(status)):
        fetch("http://media.example/", answer=lambda request: httpx.Response(status))


def test_urls_that_are_none():
    for url in ("ftp://x.example/a", "gopher://x", "/etc/passwd", "", "http:", "javascript:alert(1)"):
        with pytest.raises((InvalidRequest, BadMedia)):
            fetch(url)
    with pytest.raises(InvalidRequest, match="password"):
        fetch("http://user:pass@media.example/")


def test_files_only_under_the_allowed_folder(tmp_path):
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "a b.png").write_bytes(b"picture")
    (tmp_path / "secret").write_bytes(b"secret")
    (inside / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(inside / "pipe")
    allowed = str(inside)
    assert fetch(f"file://{inside}/a%20b.png", allowed_path=allowed) == b"picture"
    for path in (f"{inside}/../secret", f"{inside}/%2e%2e/secret", f"{inside}/link", f"{inside}/pipe", f"{inside}",
                 f"{inside}/none", f"{inside}/a%00", "/etc/passwd"):  # fmt: skip
        with pytest.raises(BadMedia):
            fetch(f"file://{path}", allowed_path=allowed)
    with pytest.raises(BadMedia):
        fetch(f"file://elsewhere{inside}/a%20b.png", allowed_path=allowed)
    with pytest.raises(BadMedia, match="larger"):
        fetch(f"file://{inside}/a%20b.png", allowed_path=allowed, max_bytes=3)
    with pytest.raises(BadMedia, match="no local files"):
        fetch(f"file://{inside}/a%20b.png")


@given(st.binary(min_size=1, max_size=40), st.sampled_from(["", ";charset=utf-8", ";name=a.png"]))
def test_data_urls_in_all_spellings(data, attribute):
    text = base64.b64encode(data).decode()
    spellings = [
        f"data:image/png{attribute};base64,{text}",
        f"DATA:image/png{attribute};BASE64,{text}",
        f"data:image/png{attribute};base64,{text.replace('+', '%2B').replace('/', '%2F').replace('=', '%3D')}",
        f"data:image/png{attribute};base64,{text.rstrip('=')}",
        f"data:;base64,{base64.urlsafe_b64encode(data).decode()}",
        f"data:;base64,{text[:5]}\n {text[5:]}",
    ]
    for url in spellings:
        assert decode(url, max_bytes=40, param="p") == data


MALFORMED = ["data:image/png;base64", "data:image/png,abc", "data:;base64,@@@", "data:;base64,", "data:;base64,A"]


@pytest.mark.parametrize("url", MALFORMED)
def test_malformed_data_urls(url):
    with pytest.raises(InvalidRequest) as caught:
        decode(url, max_bytes=99, param="p")
    assert caught.value.param == "p"


@given(st.text(max_size=30))
def test_no_text_raises_anything_else(text):
    with contextlib.suppress(InvalidRequest, BadMedia):
        decode_base64(text, max_bytes=8, param="p")
