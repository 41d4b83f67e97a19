"""Reads the settings: one TOML file, then the environment, then flags. Also writes the example file."""

import difflib
import functools
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import DEFAULT_SCHEME, SCHEME_SETTINGS

ENVIRONMENT_PREFIX = "SPOTSIEVE_"
SECTION_SEPARATOR = "__"
FILE = "_file"
"""The end of a setting's name that gives a file in place of the value."""
RENAMED = {
    "kafka.start_again": "kafka.restart_from",
    "serve.most_body_bytes": "serve.max_body_bytes",
    "serve.most_pages": "serve.max_pages",
}
"""Former names of settings, for the "did you mean" hint: the most similar name may belong to another setting."""


def load_settings(path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]) -> Settings:
    """Merge file < environment < flags and check the result.

    environ: names like SPOTSIEVE_KAFKA__GROUP_ID or SPOTSIEVE_INPUT__FIELDS__URL; with _FILE at its end, a name gives
    the file that holds the value. overrides: dotted names ("kafka.group_id") to values; None means not given.
    Raises SettingError naming the setting, the rule, the value and the next step; its `others` tell what else is wrong.
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
    _read_secrets(merged, variables)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        scheme = merged.get("scheme")
        name = scheme.get("name", DEFAULT_SCHEME) if isinstance(scheme, dict) else DEFAULT_SCHEME
        first, *others = (_setting_error(one, variables, name) for one in error.errors())
        first.others = tuple(others)
        raise first from None


def load_chosen(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object],
    scheme: str | None = None,
    threshold: float | None = None,
    stored: Mapping[str, object] | None = None,
) -> Settings:
    """load_settings, with the names that a person gives to the choice that matters most.

    scheme: stands for scheme.name  threshold: for the one setting that makes the chosen scheme stricter or looser, and
    brings along what goes with it where overrides do not name that  stored: what stored_values() gives; all else wins
    Raises SettingError as load_settings.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    given |= {} if scheme is None else {"scheme.name": scheme}
    if stored and given.get("scheme.name", stored["scheme.name"]) != stored["scheme.name"]:
        stored = {name: value for name, value in stored.items() if not name.startswith("scheme.")}
    settings = load_settings(path, environ, {**(stored or {}), **given})
    if threshold is None:
        return settings
    rule = settings.scheme.threshold
    beside = {f"scheme.{name}": value for name, value in rule.beside(threshold).items()}
    chosen = {**(stored or {}), **beside, **given, f"scheme.{rule.setting}": threshold}
    return load_settings(path, environ, chosen)


def stored_values(text: str) -> dict[str, object]:
    """What the canonical text of a state says of every setting that changes verdicts, by dotted name."""
    return {name: value for name, value in json.loads(text).items() if name != "revision"}


def settings_of_text(text: str, idf_model: str = "") -> Settings:
    """The settings that a log or a state says of itself; what changes no verdict is as by default.

    idf_model: the path of the scheme's model, which is not in the text  Raises SettingError.
    """
    return load_settings(None, {}, stored_values(text) | ({"scheme.idf_model": idf_model} if idf_model else {}))


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
    """Every setting below a model: its path and pydantic's field. [scheme] gives those of every scheme in turn."""
    for name, field in model.model_fields.items():
        sections = sections_of(field.annotation)
        for section in sections:
            yield from leaf_settings(section, (*prefix, name))
        if not sections:
            yield (*prefix, name), field


def unknown_scheme(name: str, scheme: str) -> SettingError:
    """The error for a scheme that does not exist: it lists all names and the nearest one.

    name: the setting or the flag that named the scheme
    """
    names = list(SCHEME_SETTINGS)
    near = difflib.get_close_matches(str(scheme).lower(), names, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else "`spotsieve config example` shows the settings of each"
    return SettingError(name, f"must be one of {', '.join(names)}", scheme, hint)


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
    if path[-1].endswith(FILE) and tuple(path) not in _all_settings():
        path[-1] = path[-1].removesuffix(FILE)
        return path, _text_of(name, value)
    return path, _list_or_text(name, path, value)


def _read_secrets(merged: dict[str, Any], variables: Mapping[str, str]) -> None:
    """Read each secret that is given as a file, and put it where the secret itself would stand."""
    for *sections, secret in _secrets():
        section: Any = merged
        for name in sections:
            section = section.get(name) if isinstance(section, dict) else None
        file = section.get(secret + FILE) if isinstance(section, dict) else None
        if not isinstance(section, dict) or not isinstance(file, str) or not file:
            continue  # No file is named, or the name is wrong, which pydantic reports.
        setting = ".".join((*sections, secret + FILE))
        if section.get(secret):
            raise SettingError(setting, f"and {secret} must not both be set", None, "leave one of them out")
        named = f"{setting} (from {variables[setting]})" if setting in variables else setting
        section[secret] = _text_of(named, file)


@functools.cache
def _all_settings() -> Mapping[tuple[str, ...], Sequence[Any]]:
    """The path of every setting, and pydantic's fields: more than one where several schemes have the name.

    It is kept, since to walk the models for every value that is given took a tenth of the time of a short command.
    """
    found = dict[tuple[str, ...], list[Any]]()
    for path, field in leaf_settings(Settings):
        found.setdefault(path, []).append(field)
    return found


@functools.cache
def _secrets() -> Sequence[tuple[str, ...]]:
    return tuple(path for path, (field, *_) in _all_settings().items() if field.annotation is SecretStr)


def _text_of(name: str, file: str) -> str:
    """The content of a file that a setting or variable names, without the line ends at its end. Raises SettingError."""
    try:
        return Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingError(name, f"must name a readable file: {why}", file, "check the path") from None


def _list_or_text(name: str, path: Sequence[str], value: str) -> object:
    """A value from the environment or a flag: JSON if the setting is a list, else the text ([::1]:9092 is no list)."""
    fields = _all_settings().get(tuple(path), ())
    if not any(get_origin(field.annotation) is tuple for field in fields):
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
    # The file of a secret from a stronger source wins over the secret itself, and the other way round.
    if tuple(path) in _secrets():
        tree.pop(last + FILE, None)
    elif (*sections, last.removesuffix(FILE)) in _secrets():
        tree.pop(last.removesuffix(FILE), None)


def _setting_error(error: ErrorDetails, variables: Mapping[str, str], scheme: str) -> SettingError:
    """One thing that is wrong, in the words of the user's file.

    variables: dotted name -> the variable that gave it  scheme: the name of the scheme that was asked for
    """
    loc = [str(part) for part in error["loc"]]
    if error["type"] == "union_tag_invalid":
        loc.append("name")
    elif loc[:2] == ["scheme", scheme]:
        del loc[1]  # pydantic puts the name between the section and the setting
    setting = ".".join(loc)
    name = f"{setting} (from {variables[setting]})" if setting in variables else setting or "a setting without a name"
    if error["type"] == "extra_forbidden":
        return _unknown_setting(name, setting, scheme)
    if error["type"] == "union_tag_invalid":
        return unknown_scheme(name, scheme)
    if error["type"] in {"model_type", "model_attributes_type"}:
        return SettingError(
            name, "is a section, not a setting", error["input"], f"write [{setting}], and below it NAME = VALUE"
        )
    rule = error["msg"].removeprefix("Value error, ").removeprefix("Input ").replace("String ", "")
    if loc[:1] == ["rules"]:
        name = " ".join(["rule", str(int(loc[1]) + 1), *loc[2:]]) if len(loc) > 1 else name
        return SettingError(name, rule, None, "docs/guide.md has examples of [[rules]]")
    secret = "password" in setting
    default = _default_of(setting, scheme)
    hint = "`spotsieve config example` shows the default and the unit"
    if default is not None and not secret:
        hint = f"its default is {default}; `spotsieve config example` shows the unit"
    return SettingError(name, rule, None if secret else error["input"], hint)


def _default_of(setting: str, scheme: str) -> str | None:
    """The default of a setting, as a file writes it; None if it has no default or is a section."""
    section, _, field = setting.partition(".")
    if section == "scheme":
        own = SCHEME_SETTINGS[scheme].model_fields.get(field)
    else:
        own = next((found for path, found in leaf_settings(Settings) if ".".join(path) == setting), None)
    value = None if own is None else own.default
    return json.dumps(value) if isinstance(value, (bool, int, float, str)) else None


def _unknown_setting(name: str, setting: str, scheme: str) -> SettingError:
    """The error for a name that no section has, or that only another scheme has."""
    field = setting.removeprefix("scheme.")
    owners = [other for other, model in SCHEME_SETTINGS.items() if field in model.model_fields]
    if setting.startswith("scheme.") and owners:
        rule = f"is not a setting of the scheme {scheme}, but of {', '.join(owners)}"
        return SettingError(name, rule, None, f'leave it out, or write name = "{owners[0]}" in [scheme]')
    own = {f"scheme.{field}" for field in SCHEME_SETTINGS[scheme].model_fields}
    paths = {".".join(path) for path, _ in leaf_settings(Settings)}
    known = sorted(path for path in paths if not path.startswith("scheme.") or path in own)
    sections = sorted({prefix for path in known for prefix in _sections(path)})
    near = RENAMED.get(setting) or next(iter(difflib.get_close_matches(setting, known + sections, n=1, cutoff=0.5)), "")
    hint = f"did you mean {near}?" if near else "`spotsieve config example` lists all settings"
    return SettingError(name, "is not a setting", None, hint)


def tables_of(annotation: Any) -> list[type[BaseModel]]:
    """The model of each table in a list of tables, such as [[rules]]; none for any other field."""
    if get_origin(annotation) is not tuple:
        return []
    return [kind for kind in get_args(annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """The models that a field can hold: one for a section, several for [scheme], none for a plain value."""
    if get_origin(annotation) is tuple:
        return []  # Tables of a list have no names of their own.
    kinds = get_args(annotation) or (annotation,)
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _sections(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]


def _example_section(path: tuple[str, ...], model: type[BaseModel]) -> Iterator[str]:
    if path:
        yield ""
        yield f"# {about(model)}"
        yield f"[{'.'.join(path)}]"
    yield from _example_settings(model)
    for name, field in model.model_fields.items():
        for place, kind in enumerate(sections_of(field.annotation)):
            if place == 0:
                yield from _example_section((*path, name), kind)
            else:
                yield ""
                yield f"# Another scheme, instead of the settings above: {about(kind)}"
                # Without the blank behind #, so that an editor's "uncomment" leaves the comments of these comments.
                yield from (f"#{line}" for line in _example_settings(kind))


def about(model: type[BaseModel]) -> str:
    """The sentence that a section's class says of it."""
    return (model.__doc__ or "").strip().splitlines()[0]


def _example_settings(model: type[BaseModel]) -> Iterator[str]:
    """The plain settings of one section, each below its comment."""
    for name, field in model.model_fields.items():
        if sections_of(field.annotation):
            continue
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        notes = [str(field.description)]
        if extra.get("unit"):
            notes.append(f"[{extra['unit']}]")
        if extra.get("verdicts"):
            notes.append("[verdicts]")
        yield f"# {' '.join(notes)}"
        tables = tables_of(field.annotation)
        if tables:
            # Commented: a list that is written out, though empty, cannot be added to by [[tables]] at the file's end.
            shown = {each: own.examples[0] for each, own in tables[0].model_fields.items() if own.examples}
            table = ", ".join(f"{each} = {toml_value(value)}" for each, value in shown.items())
            yield f"#{name} = [{{ {table} }}]"
        else:
            yield f"{name} = {toml_value(field.default)}"


def toml_value(value: object) -> str:
    """A default as TOML writes it; a secret is empty, and so is what has no default."""
    if value is None or isinstance(value, SecretStr):
        return '""'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        return json.dumps(list(value))
    return json.dumps(str(value))
