"""Rows of the benchmark, and ratios of ours to a peer's."""

from dataclasses import dataclass

__all__ = ("Row", "ratios", "show")


@dataclass(frozen=True)
class Row:
    """One measured thing; ``value`` is its number for ratios, 0 where it has none."""

    server: str
    what: str
    said: str
    value: float = 0.0


def show(row: Row) -> None:
    """Print one row as soon as it is there."""
    print(f"{row.server:<12}  {row.what:<44}  {row.said}", flush=True)


def ratios(rows: list[Row], ours: str = "isthmus") -> list[str]:
    """Ours to each peer's, where both have a number for the same thing."""
    own = {row.what: row.value for row in rows if row.server == ours}
    return [
        f"{row.what}: {own[row.what] / row.value:.2f} of {row.server}"
        for row in rows
        if row.server != ours and row.value and own.get(row.what)
    ]
