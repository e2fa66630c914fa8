"""Isthmus: the CPU side of LLM serving. ``litestar run`` finds :func:`create_app` here."""

from typing import Any

__all__ = ("create_app",)


def __getattr__(name: str) -> Any:
    """Import the server only when it is asked for (PEP 562), so that ``import app.parsing`` stays light."""
    if name == "create_app":
        from app.asgi import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
