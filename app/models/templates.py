"""A model directory's chat templates, by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.errors import StartupError
from app.tokenizing.files import read_json

__all__ = ("read_templates",)


def read_templates(directory: Path, tokenizer_config: Mapping[str, Any], override: str = "") -> dict[str, str]:
    """Sources by name: ``default``, and ``tool_use``, ``rag`` and the like where the model has them.

    As in transformers 5: ``chat_template.jinja`` and ``additional_chat_templates/NAME.jinja`` where either exists, else
    ``chat_template.json`` (processors), else ``chat_template`` in tokenizer_config.json, a string or a list of names
    and templates. ``override`` is the path of a file that replaces all of them.
    """
    if override:
        return {"default": _read(Path(override))}
    found = {}
    if (main := directory / "chat_template.jinja").is_file():
        found["default"] = _read(main)
    for path in sorted((directory / "additional_chat_templates").glob("*.jinja")):
        found[path.stem] = _read(path)
    if found:
        return found
    in_json = read_json(directory / "chat_template.json")
    value = in_json.get("chat_template") if isinstance(in_json, dict) else None
    value = value or tokenizer_config.get("chat_template")
    match value:
        case str():
            return {"default": value}
        case dict():
            return {str(name): source for name, source in value.items() if isinstance(source, str)}
        case list():
            return {
                str(t["name"]): t["template"] for t in value if isinstance(t, dict) and {"name", "template"} <= t.keys()
            }
        case _:
            return {}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise StartupError(f"{path}: {reason}") from error
