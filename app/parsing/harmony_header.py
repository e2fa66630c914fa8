"""The header of a Harmony message to the words of its role and of its channel.

``<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>``
"""

import re
from collections.abc import Callable, Sequence

from app.parsing.format import HarmonyMessages

__all__ = ("Header", "HeaderReader")

WORDS = re.compile("[^<\ud800-\udfff]{0,512}")
"""What stands between two marks of a header."""
ROLE = re.compile(r"\S{0,256}(?:\s+to=\S{1,256})?\s{0,64}")
HALF_ROLE = re.compile(r"\S{0,256}(?:\s+(?:t|to|to=\S{0,256}\s{0,64})?)?")

Header = tuple[int, str, str]
"""Where the message's text begins, the words of its role and of its channel."""


class HeaderReader:
    """Reads headers; ``encode`` puts surrogates for the markers."""

    def __init__(self, data: HarmonyMessages, encode: Callable[[str], str]) -> None:
        self.start, self.channel, self.constrain, self.message = map(
            encode, (data.start, data.channel, data.constrain, data.message)
        )

    def read(self, text: str) -> Header | bool:
        """The header that ``text`` begins with; True where one may still come of it, False where none can."""
        at, role, channel = 0, "", ""
        if text.startswith(self.start):
            found = WORDS.match(text, len(self.start))
            role, at = (found[0], found.end()) if found else ("", len(self.start))
            if at == len(text):
                return HALF_ROLE.fullmatch(role) is not None
            if ROLE.fullmatch(role) is None:
                return False
        following: Sequence[str] = (self.message, self.channel)
        while True:
            mark = next((mark for mark in following if text.startswith(mark, at)), None)
            if mark is None:
                left = text[at:]
                return any(mark.startswith(left) for mark in following)
            at += len(mark)
            if mark == self.message:
                return at, role, channel
            found = WORDS.match(text, at)
            words = found[0] if found else ""
            at += len(words)
            if mark == self.channel:
                channel, following = words, (self.message, self.constrain)
            else:
                following = (self.message,)
            if at == len(text):
                return len(words) < 512
