"""`python -m bench`: prints the table, then ratios to the peers."""

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from bench import derender, engine, media, render, store
from bench.table import Row, ratios, show
from tests.models import model_directory

MEASURES = {
    "derender": derender.measure,
    "render": render.measure,
    "engine": engine.measure,
    "media": media.measure,
    "store": store.measure,
}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--peers", type=Path, help="folder with an installation of vLLM's render servers")
    parser.add_argument("--model", type=Path, help="model directory (default: Qwen3's, made from PyPI packages)")
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement")
    parser.add_argument("--only", choices=MEASURES, action="append", help="leave out the others")
    parser.add_argument("--responses", type=int, default=20_000, help="stored when the store is measured")
    parser.add_argument("--postgres", default=store.POSTGRES, help="URL of a PostgreSQL database for the store")
    parser.add_argument("--directory", type=Path, help="where the store's SQLite files go (a temporary directory)")
    options = parser.parse_args()
    stored: dict[str, Any] = {
        "responses": options.responses,
        "postgres": options.postgres,
        "directory": options.directory,
    }
    measures: dict[str, Callable[..., Iterable[Row]]] = {**MEASURES, "store": partial(store.measure, **stored)}
    model = (options.model or model_directory("qwen3")).resolve()
    rows: list[Row] = []
    for name in options.only or MEASURES:
        for row in measures[name](model, options.peers, options.seconds):
            rows.append(row)
            show(row)
    print(*ratios(rows), sep="\n")


if __name__ == "__main__":
    main()
