"""Rendering options that several dialects share, checked and brought into ``TemplateOptions``' terms."""

from typing import Literal

from app.errors import InvalidRequest
from app.rendering.limits import EFFORTS

__all__ = ("check_truncation", "read_effort", "read_mm_payload", "read_side")


def read_effort(effort: str | None, *, param: str = "reasoning_effort") -> str | None:
    """A reasoning effort that is one of the known words."""
    if effort is not None and effort not in EFFORTS:
        raise InvalidRequest(f"`{param}` is one of {', '.join(EFFORTS)}.", param=param)
    return effort


def read_side(side: str | None) -> Literal["left", "right"] | None:
    """Which end of the prompt a truncation takes away."""
    match side:
        case None | "left" | "right":
            return side
    raise InvalidRequest("`truncation_side` is left or right.", param="truncation_side")


def read_mm_payload(payload: str | None, return_mm_kwargs: bool | None = None) -> Literal["tensors", "none"]:
    """Whether media tensors are sent; ``return_mm_kwargs: false`` is the older spelling of none."""
    if payload is None:
        return "none" if return_mm_kwargs is False else "tensors"
    if payload == "tensors":
        return "tensors"
    if payload == "none":
        return "none"
    raise InvalidRequest("`mm_payload` is tensors or none.", param="mm_payload")


def check_truncation(keep: int | None) -> int | None:
    """Tokens of the prompt to keep; -1 is "as many as leave room for one"."""
    if keep is not None and (keep < -1 or keep == 0):
        raise InvalidRequest(
            "`truncate_prompt_tokens` is a number of tokens, at least 1, or -1.", param="truncate_prompt_tokens"
        )
    return keep
