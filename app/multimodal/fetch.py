"""A media URL to its bytes: data, http(s) and file URLs, within the limits of the settings."""

import asyncio
import os
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from app.errors import BadMedia, InvalidRequest
from app.multimodal import data_url
from app.multimodal.address_guard import AddressGuard
from app.settings import MediaSettings

if TYPE_CHECKING:
    import httpx

__all__ = ("Fetcher",)

LOOP_CHARS = 4_194_304
"""A data URL of so much is decoded on the event loop, in a millisecond or two."""
MAX_REDIRECTS = 5
MAX_URL = 8192
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Fetcher:
    """Reads media by URL. One per process; :meth:`close` frees its connections.

    Args:
        settings: limits and where media may come from.
        guard: which addresses may be asked; made from the settings where not given.
        transport: for tests.
    """

    def __init__(
        self,
        settings: MediaSettings,
        *,
        guard: AddressGuard | None = None,
        transport: "httpx.AsyncBaseTransport | None" = None,
    ) -> None:
        self._settings = settings
        self._guard = guard or AddressGuard(
            settings.allowed_domains, settings.denied_domains, settings.allowed_networks
        )
        self._transport = transport
        self._client: httpx.AsyncClient | None = None

    async def fetch(self, url: str, *, param: str) -> bytes:
        """The bytes at ``url``.

        Raises:
            InvalidRequest: the URL is malformed or of another scheme (400).
            BadMedia: it may not, or could not, be fetched, or is too large (422).
        """
        if data_url.is_data_url(url):
            decode = partial(data_url.decode, url, max_bytes=self._settings.max_bytes, param=param)
            return decode() if len(url) < LOOP_CHARS else await asyncio.to_thread(decode)
        scheme = url.partition(":")[0].lower()
        if scheme in ("http", "https"):
            return await self._http(url, param)
        if scheme == "file":
            return await asyncio.to_thread(self._file, url, param)
        raise InvalidRequest("The URL of an image or video must be an http(s), data or file URL.", param=param)

    async def close(self) -> None:
        """Free the connections."""
        if self._client is not None:
            await self._client.aclose()

    def _connected(self) -> "httpx.AsyncClient":
        """The client, made when the first URL needs it: a text server never imports httpx."""
        import httpx

        if self._client is None:
            # No connection is kept: one to a pinned address must never serve another host name.
            self._client = httpx.AsyncClient(
                trust_env=False,
                follow_redirects=False,
                transport=self._transport,
                limits=httpx.Limits(max_connections=64, max_keepalive_connections=0),
                timeout=self._settings.timeout_s,
            )
        return self._client

    async def _http(self, url: str, param: str) -> bytes:
        import httpx

        try:
            async with asyncio.timeout(self._settings.timeout_s):
                for _ in range(MAX_REDIRECTS + 1):
                    answer = await self._one_hop(url, param)
                    if isinstance(answer, bytes):
                        return answer
                    url = answer
        except TimeoutError:
            raise BadMedia(f"Fetching this URL took over {self._settings.timeout_s:g} s.", param=param) from None
        except httpx.InvalidURL:
            raise InvalidRequest("This URL is malformed.", param=param) from None
        except httpx.HTTPError as error:
            raise BadMedia(f"This URL could not be fetched ({type(error).__name__}).", param=param) from None
        raise BadMedia(f"This URL redirects more than {MAX_REDIRECTS} times.", param=param)

    async def _one_hop(self, url: str, param: str) -> bytes | str:
        """The body, or the next URL; every hop is judged anew and pinned to the address that was judged."""
        import httpx

        if len(url) > MAX_URL:
            raise InvalidRequest(f"This URL is longer than {MAX_URL} characters.", param=param)
        target = httpx.URL(url)
        host = target.host
        if target.scheme not in ("http", "https") or not host:
            raise BadMedia("This URL leads to an address that is not http(s).", param=param)
        if target.userinfo:
            raise InvalidRequest("A media URL must not carry a user name or password.", param=param)
        port = target.port or (443 if target.scheme == "https" else 80)
        address = await self._guard.address(host, port, param=param)
        headers = {"Host": target.netloc.decode("ascii"), "Accept-Encoding": "identity", "Accept": "image/*, video/*"}
        client = self._connected()
        request = client.build_request(
            "GET", target.copy_with(host=address), headers=headers, extensions={"sni_hostname": host}
        )
        response = await client.send(request, stream=True)
        try:
            if response.status_code in REDIRECTS and "location" in response.headers:
                return str(target.join(response.headers["location"]))
            if response.status_code != 200:
                raise BadMedia(f"This URL answered with HTTP status {response.status_code}.", param=param)
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise BadMedia("This URL answers with a compressed body, which was not asked for.", param=param)
            return await self._body(response, param)
        finally:
            await response.aclose()

    async def _body(self, response: "httpx.Response", param: str) -> bytes:
        limit = self._settings.max_bytes
        length = response.headers.get("content-length", "")
        if length.isdigit() and int(length) > limit:
            raise BadMedia(f"This item is larger than {limit} bytes.", param=param)
        body = bytearray()
        async for piece in response.aiter_raw(65536):
            body += piece
            if len(body) > limit:
                raise BadMedia(f"This item is larger than {limit} bytes.", param=param)
        if not body:
            raise BadMedia("This URL answered with nothing.", param=param)
        return bytes(body)

    def _file(self, url: str, param: str) -> bytes:
        refusal = BadMedia("This server reads no such file.", param=param)
        if not self._settings.allowed_path:
            raise BadMedia("This server reads no local files.", param=param)
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or "\0" in unquote(parts.path):
            raise refusal
        root = Path(self._settings.allowed_path).resolve()
        path = Path(unquote(parts.path)).resolve()
        if not path.is_relative_to(root):
            raise refusal
        try:
            # The path is resolved, so a link in its last place was put there since: O_NOFOLLOW refuses that.
            # O_NONBLOCK: opening a named pipe must not wait for a writer.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            raise refusal from None
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            os.close(descriptor)
            raise refusal
        with os.fdopen(descriptor, "rb") as file:
            if facts.st_size > self._settings.max_bytes:
                raise BadMedia(f"This item is larger than {self._settings.max_bytes} bytes.", param=param)
            return file.read(self._settings.max_bytes + 1)
