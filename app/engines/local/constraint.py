"""Structured-output parameters to a mask over the vocabulary at every step, by xgrammar.

``json``, ``json_object``, ``regex``, ``choice``, ``grammar`` (EBNF) and ``structural_tag`` compile to one kind of
grammar. Where a request's prompt leaves reasoning open (``reasoning_ended`` is False), the mask starts after the token
that closes it.
"""

import json
import re
import threading
from typing import Any

import msgspec

from app.errors import InvalidRequest, Unsupported
from app.protocol.generate import StructuredOutputs
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("Constraint", "Constraints", "kind_of")

_PLACE = re.compile(r"^\[[\d:]+\] \S+: ")
"""Time and source line with which xgrammar begins its messages."""
KINDS = ("json", "json_object", "regex", "choice", "grammar", "structural_tag")
MAX_BYTES = 262_144
"""Of a constraint as JSON; OpenAI takes 120,000 characters of names and values."""


def kind_of(wanted: StructuredOutputs) -> str:
    """The kind of constraint, which can be served as far as that is seen without compiling it.

    Raises:
        InvalidRequest: there is none or are several, or it is too long.
        Unsupported: it has options that no grammar here has.
    """
    kinds = [kind for kind in KINDS if getattr(wanted, kind) not in (None, False)]
    if len(kinds) != 1:
        raise InvalidRequest(
            f"Structured outputs take one of {', '.join(KINDS)}; {len(kinds)} are given.", param="structured_outputs"
        )
    if wanted.whitespace_pattern is not None:
        raise Unsupported("Grammars with a white-space pattern are not served.", param="structured_outputs")
    (kind,) = kinds
    if len(msgspec.json.encode(getattr(wanted, kind))) > MAX_BYTES:
        raise InvalidRequest(
            f"The {kind} constraint is longer than {MAX_BYTES} bytes.", param=f"structured_outputs.{kind}"
        )
    return kind


class Constraint:
    """One output's place in its grammar."""

    def __init__(self, matcher: Any, vocab_size: int, opens_after: int | None) -> None:
        import xgrammar

        self._matcher = matcher
        self._bits = xgrammar.allocate_token_bitmask(1, vocab_size)
        self._opens_after = opens_after
        self.finished = False

    def mask(self, logits: Any) -> None:
        """Set what the grammar forbids to -inf, in place; ``logits`` is ``[1, vocabulary]``."""
        import xgrammar

        if self._opens_after is None and not self.finished and self._matcher.fill_next_token_bitmask(self._bits):
            xgrammar.apply_token_bitmask_inplace(logits, self._bits.to(logits.device))

    def accept(self, token: int) -> None:
        """Advance by a sampled token; a token that the grammar can't take (a forced one) ends the constraint."""
        if self._opens_after is not None:
            if token == self._opens_after:
                self._opens_after = None
            return
        if not self.finished:
            self.finished = not self._matcher.accept_token(token) or self._matcher.is_terminated()


class Constraints:
    """Compiles and caches grammars for one tokenizer. ``compile`` may take long: call it off the loop."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, eos_token_ids: tuple[int, ...]) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._eos = eos_token_ids
        self._compilers: dict[bool, Any] = {}
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Read the vocabulary, which takes a second, before the first constraint comes."""
        for specials in (False, True):
            self._compiler(specials)

    def compile(self, wanted: StructuredOutputs) -> Any:
        """A compiled grammar; raises InvalidRequest or Unsupported naming the part that is at fault."""
        kind = kind_of(wanted)
        try:
            return self._compile(kind, getattr(wanted, kind), wanted)
        except Unsupported:
            raise
        except Exception as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            reason = _PLACE.sub("", reason)[:300]
            raise InvalidRequest(
                f"The {kind} constraint can't be compiled: {reason}", param=f"structured_outputs.{kind}"
            ) from error

    def start(self, compiled: Any, reasoning_ended: bool | None, reasoning_end: str) -> Constraint:
        """A fresh constraint; ``reasoning_end`` is the marker that opens the gate where reasoning is open."""
        import xgrammar

        gate = self._tokenizer.token_to_id(reasoning_end) if reasoning_ended is False else None
        return Constraint(xgrammar.GrammarMatcher(compiled), self._vocab_size, gate)

    def _compile(self, kind: str, value: Any, wanted: StructuredOutputs) -> Any:
        compiler = self._compiler(kind == "structural_tag")
        if kind == "json_object":
            return compiler.compile_json_schema('{"type": "object"}', strict_mode=False, **_spacing(wanted))
        if kind == "json":
            schema = value if isinstance(value, str) else json.dumps(value)
            msgspec.json.decode(schema)
            return compiler.compile_json_schema(schema, **_spacing(wanted))
        if kind == "regex":
            return compiler.compile_regex(value)
        if kind == "choice":
            options = " | ".join(json.dumps(option, ensure_ascii=False) for option in value)
            return compiler.compile_grammar(f"root ::= {options}")
        if kind == "grammar":
            if "::=" not in value:
                raise Unsupported("Grammars are written in EBNF here (root ::= ...).", param="structured_outputs")
            return compiler.compile_grammar(value)
        return compiler.compile_structural_tag(value)

    def _compiler(self, specials: bool) -> Any:
        """A compiler; text constraints never let a special token pass for its spelling, structural tags may."""
        with self._lock:
            if specials not in self._compilers:
                self._compilers[specials] = self._read_vocabulary(specials)
        return self._compilers[specials]

    def _read_vocabulary(self, specials: bool) -> Any:
        import xgrammar

        hidden = frozenset() if specials else self._tokenizer.special_ids
        size = min(self._vocab_size, self._tokenizer.vocab_size)
        words = [b"" if i in hidden else self._tokenizer.token_bytes(i) for i in range(size)]
        info = xgrammar.TokenizerInfo(
            words, xgrammar.VocabType.RAW, vocab_size=self._vocab_size, stop_token_ids=list(self._eos)
        )
        return xgrammar.GrammarCompiler(info, max_threads=1, cache_limit_bytes=256 * 1024 * 1024)


def _spacing(wanted: StructuredOutputs) -> dict[str, Any]:
    return {"any_whitespace": not wanted.disable_any_whitespace}
