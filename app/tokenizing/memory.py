"""Memory that loading left free in the process, back to the system."""

import ctypes
import sys

__all__ = ("return_free_memory",)


def return_free_memory() -> None:
    """Ask the C library for it, where it is glibc: parsing a vocabulary leaves half of its memory free and kept."""
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        return
