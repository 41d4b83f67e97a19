"""Owns how settings are found: one TOML file, then the environment, then flags; and the example file."""

import difflib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from stream.config import Settings
from stream.errors import SettingError

ENVIRONMENT_PREFIX = "SPOTSIEVE_"
SECTION_SEPARATOR = "__"


def load_settings(path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]) -> Settings:
    """Merge file < environment < flags and check the result.

    environ: names like SPOTSIEVE_KAFKA__GROUP_ID or SPOTSIEVE_INPUT__FIELDS__URL; SPOTSIEVE_KAFKA__SASL_PASSWORD_FILE
    reads a secret from a file. overrides: dotted names ("kafka.group_id") to values; None means not given.
    Raises SettingError naming the setting, the rule, the value and the next step.
    """
    merged: dict[str, Any] = {} if path is None else _read_toml(path)
    variables: dict[str, str] = {}
    for name, value in environ.items():
        if name.startswith(ENVIRONMENT_PREFIX) and SECTION_SEPARATOR in name:
            parts, meant = _from_environment(name, value)
            _set(merged, parts, meant)
            variables[".".join(parts)] = name
    for name, given in overrides.items():
        if given is not None:
            variables.pop(name, None)
            parts = name.split(".")
            _set(merged, parts, _list_or_text(name, parts, given) if isinstance(given, str) else given)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise _first_error(error.errors()[0], variables) from None


def example_toml() -> str:
    """Every setting with its default, unit and whether it changes verdicts, as a TOML file that loads."""
    lines = [
        "# Spotsieve settings. Every line is the default; change what you need.",
        "# [verdicts] marks what changes verdicts: a state and its log belong to one choice of these.",
        f"# Environment: {ENVIRONMENT_PREFIX}KAFKA{SECTION_SEPARATOR}GROUP_ID=... sets kafka.group_id; flags win.",
    ]
    lines.extend(_example_section((), Settings))
    return "\n".join(lines) + "\n"


def leaf_settings(model: type[BaseModel], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every setting below a model: its path and pydantic's field."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from leaf_settings(kind, (*prefix, name))
        else:
            yield (*prefix, name), field


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(
            str(path),
            f"cannot be read: {error.strerror}",
            None,
            "give -c FILE, or write one with `spotsieve config example`",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(str(path), f"must be TOML: {error}", None, "see `spotsieve config example`") from None


def _from_environment(name: str, value: str) -> tuple[list[str], object]:
    path = name.removeprefix(ENVIRONMENT_PREFIX).lower().split(SECTION_SEPARATOR)
    if path[-1].endswith("_file") and tuple(path) not in dict(leaf_settings(Settings)):
        path[-1] = path[-1].removesuffix("_file")
        try:
            return path, Path(value).read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            raise SettingError(name, f"must name a readable file: {error.strerror}", value, "check the path") from None
    return path, _list_or_text(name, path, value)


def _list_or_text(name: str, path: Sequence[str], value: str) -> object:
    """What the environment or a flag says: JSON where the setting is a list, else the text ([::1]:9092 is no list)."""
    field = dict(leaf_settings(Settings)).get(tuple(path))
    if field is None or get_origin(field.annotation) is not tuple:
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise SettingError(name, "must be a JSON list", value, 'write it as ["a", "b"]') from None


def _set(tree: dict[str, Any], path: list[str], value: object) -> None:
    *sections, last = path
    for section in sections:
        below = tree.setdefault(section, {})
        if not isinstance(below, dict):
            raise SettingError(".".join(path), "must be below a section", below, f"write [{section}] as a table")
        tree = below
    tree[last] = value


def _first_error(error: ErrorDetails, variables: Mapping[str, str]) -> SettingError:
    """The first thing wrong, in the words of a person's file; variables: dotted name to the variable it came from."""
    setting = ".".join(str(part) for part in error["loc"])
    name = f"{setting} (from {variables[setting]})" if setting in variables else setting or "a setting without a name"
    if error["type"] == "extra_forbidden":
        known = [".".join(path) for path, _ in leaf_settings(Settings)]
        sections = sorted({prefix for path in known for prefix in _sections(path)})
        near = difflib.get_close_matches(setting, known + sections, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "`spotsieve config example` lists them all"
        return SettingError(name, "is not a setting", None, hint)
    if error["type"] == "model_type":
        return SettingError(
            name, "is a section, not a setting", error["input"], f"write [{setting}], and below it NAME = VALUE"
        )
    rule = error["msg"].removeprefix("Input ").replace("String ", "")
    secret = "password" in setting
    return SettingError(
        name, rule, None if secret else error["input"], "`spotsieve config example` shows the default and the unit"
    )


def _sections(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]


def _example_section(path: tuple[str, ...], model: type[BaseModel]) -> Iterator[str]:
    about = (model.__doc__ or "").strip().splitlines()[0]
    if path:
        yield ""
        yield f"# {about}"
        yield f"[{'.'.join(path)}]"
    below: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            below.append((name, kind))
            continue
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        notes = [str(field.description)]
        if extra.get("unit"):
            notes.append(f"[{extra['unit']}]")
        if extra.get("verdicts"):
            notes.append("[verdicts]")
        yield f"# {' '.join(notes)}"
        yield f"{name} = {_toml_value(field.default)}"
    for name, kind in below:
        yield from _example_section((*path, name), kind)


def _toml_value(value: object) -> str:
    if isinstance(value, SecretStr):
        return '""'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        return json.dumps(list(value))
    return json.dumps(str(value))
