"""Loads the settings: one TOML file, then the environment, then flags; the later source wins.

Every mistake becomes a SettingError with the setting, the rule, the value and the next step.
"""

import difflib
import functools
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_origin

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import DEFAULT_SCHEME, SCHEME_SETTINGS
from spotsieve.stream.base.settings.section import leaf_settings

ENVIRONMENT_PREFIX = "SPOTSIEVE_"
SECTION_SEPARATOR = "__"
FILE = "_file"
"""The suffix of a setting that names a file which holds the value."""
RENAMED = {
    "scheme.min_alike": "scheme.min_containment",
    "scheme.min_jaccard": "scheme.min_containment",
    "kafka.start_again": "kafka.restart_from",
    "serve.most_body_bytes": "serve.max_body_bytes",
    "serve.most_pages": "serve.max_pages",
}
"""Former names of settings, for the "did you mean" hint: the most similar name may belong to another setting."""


def load_settings(path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]) -> Settings:
    """The settings from a file, the environment and flags.

    path: a TOML file; None: no file
    environ: variables such as SPOTSIEVE_KAFKA__GROUP_ID or SPOTSIEVE_INPUT__FIELDS__URL. A variable that ends in _FILE
    names a file that holds the value.
    overrides: dotted name ("kafka.group_id") -> value; None if the flag was not given
    Raises SettingError for the first mistake; its `others` are the other mistakes.
    """
    merged: dict[str, Any] = {} if path is None else _read_toml(path)
    variables: dict[str, str] = {}
    for name, text in environ.items():
        if name.startswith(ENVIRONMENT_PREFIX) and SECTION_SEPARATOR in name:
            parts, value = _from_environment(name, text)
            _set(merged, parts, value)
            variables[".".join(parts)] = name
    for name, override in overrides.items():
        if override is not None:
            variables.pop(name, None)
            parts = name.split(".")
            _set(merged, parts, _list_or_text(name, parts, override) if isinstance(override, str) else override)
    _read_secrets(merged, variables)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        section = merged.get("scheme")
        scheme = section.get("name", DEFAULT_SCHEME) if isinstance(section, dict) else DEFAULT_SCHEME
        first, *others = (_setting_error(one, variables, scheme) for one in error.errors())
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
    """The settings as load_settings loads them, with --scheme, --threshold and the settings of a state.

    scheme: the value of scheme.name
    threshold: the value of the scheme's main threshold. The settings that depend on it change along, unless overrides
    contain them.
    stored: the settings of a state (stored_values); every other source wins over them
    Raises SettingError.
    """
    chosen = {name: value for name, value in overrides.items() if value is not None}
    chosen |= {} if scheme is None else {"scheme.name": scheme}
    if stored and chosen.get("scheme.name", stored["scheme.name"]) != stored["scheme.name"]:
        stored = {name: value for name, value in stored.items() if not name.startswith("scheme.")}
    settings = load_settings(path, environ, {**(stored or {}), **chosen})
    if threshold is None:
        return settings
    main = settings.scheme.threshold
    dependent = {f"scheme.{name}": value for name, value in main.beside(threshold).items()}
    return load_settings(path, environ, {**(stored or {}), **dependent, **chosen, f"scheme.{main.setting}": threshold})


def misspelt_variables(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that is ignored because it has one underscore where a section ends."""
    known = {"_".join(path).upper(): SECTION_SEPARATOR.join(path).upper() for path in _all_settings() if path[1:]}
    known |= {f"{name}{FILE.upper()}": f"{right}{FILE.upper()}" for name, right in known.items()}
    names = [name for name in environ if name.startswith(ENVIRONMENT_PREFIX) and SECTION_SEPARATOR not in name]
    return [
        f"{name} is ignored: two underscores end a section; rename it to {ENVIRONMENT_PREFIX}{known[setting]}"
        for name in names
        if (setting := name.removeprefix(ENVIRONMENT_PREFIX)) in known
    ]


def stored_values(text: str) -> dict[str, object]:
    """The settings that change verdicts, by dotted name, from the settings text of a state or log."""
    return {name: value for name, value in json.loads(text).items() if name != "revision"}


def settings_of_text(text: str, idf_model: str = "") -> Settings:
    """The settings from the settings text of a state or log; settings that change no verdict have their defaults.

    idf_model: the path of the scheme's model, which the text does not contain. Raises SettingError.
    """
    return load_settings(None, {}, stored_values(text) | ({"scheme.idf_model": idf_model} if idf_model else {}))


# Sources


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # Editors may write a mark.
    except OSError as error:
        raise SettingError(
            str(path),
            f"cannot be read: {error.strerror}",
            None,
            "give -c FILE, or write one with `spotsieve config example`",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(str(path), f"must be TOML: {error}", None, "see `spotsieve config example`") from None


def _from_environment(name: str, text: str) -> tuple[list[str], object]:
    """The path and the value of the setting that a variable gives."""
    path = name.removeprefix(ENVIRONMENT_PREFIX).lower().split(SECTION_SEPARATOR)
    if path[-1].endswith(FILE) and tuple(path) not in _all_settings():
        path[-1] = path[-1].removesuffix(FILE)
        return path, _text_of(name, text)
    return path, _list_or_text(name, path, text)


def _read_secrets(merged: dict[str, Any], variables: Mapping[str, str]) -> None:
    """Replace each secret that is given as a file by the content of the file."""
    for *sections, secret in _secrets():
        section: Any = merged
        for name in sections:
            section = section.get(name) if isinstance(section, dict) else None
        file = section.get(secret + FILE) if isinstance(section, dict) else None
        if not isinstance(section, dict) or not isinstance(file, str) or not file:
            continue  # There is no file; pydantic reports a wrong type.
        setting = ".".join((*sections, secret + FILE))
        if section.get(secret):
            raise SettingError(setting, f"and {secret} must not both be set", None, "leave one of them out")
        named = f"{setting} (from {variables[setting]})" if setting in variables else setting
        section[secret] = _text_of(named, file)


def _text_of(name: str, file: str) -> str:
    """The content of the file that a setting or variable names, without trailing line ends. Raises SettingError."""
    try:
        return Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingError(name, f"must name a readable file: {why}", file, "check the path") from None


def _list_or_text(name: str, path: Sequence[str], text: str) -> object:
    """The value of a variable or flag: JSON if the setting is a list, else the text ([::1]:9092 is a text)."""
    fields = _all_settings().get(tuple(path), ())
    if not any(get_origin(field.annotation) is tuple for field in fields):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise SettingError(name, "must be a JSON list", text, 'write it as ["a", "b"]') from None


def _set(tree: dict[str, Any], path: list[str], value: object) -> None:
    *sections, last = path
    for depth, section in enumerate(sections, 1):
        below = tree.setdefault(section, {})
        if not isinstance(below, dict):  # It is not shown: it may be a password.
            raise _not_a_section(".".join(path[:depth]), ".".join(path))
        tree = below
    tree[last] = value
    # A secret and its file replace each other: the stronger source wins.
    if tuple(path) in _secrets():
        tree.pop(last + FILE, None)
    elif (*sections, last.removesuffix(FILE)) in _secrets():
        tree.pop(last.removesuffix(FILE), None)


@functools.cache
def _all_settings() -> Mapping[tuple[str, ...], Sequence[Any]]:
    """The path of every setting -> its pydantic fields, several if more than one scheme has the name.

    It is cached: walking the models for each value took a tenth of the time of a short command.
    """
    fields = dict[tuple[str, ...], list[Any]]()
    for path, field in leaf_settings(Settings):
        fields.setdefault(path, []).append(field)
    return fields


@functools.cache
def _secrets() -> Sequence[tuple[str, ...]]:
    return tuple(path for path, (field, *_) in _all_settings().items() if field.annotation is SecretStr)


# Mistakes


def unknown_scheme(name: str, scheme: str) -> SettingError:
    """The error for an unknown scheme, with all names and the most similar one.

    name: the setting or flag that names the scheme
    """
    names = list(SCHEME_SETTINGS)
    near = difflib.get_close_matches(str(scheme).lower(), names, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else "`spotsieve config example` shows the settings of each"
    return SettingError(name, f"must be one of {', '.join(names)}", scheme, hint)


def _setting_error(error: ErrorDetails, variables: Mapping[str, str], scheme: str) -> SettingError:
    """One mistake that pydantic found, in the terms of the user's file.

    variables: dotted name -> the variable that gave the value  scheme: the configured scheme
    """
    loc = [str(part) for part in error["loc"]]
    if error["type"] == "union_tag_invalid":
        loc.append("name")
    elif loc[:2] == ["scheme", scheme]:
        del loc[1]  # pydantic puts the name of the scheme between section and setting.
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
    if isinstance(error["input"], dict) and tuple(loc) in _all_settings():
        return _not_a_section(name, f"{setting}.{next(iter(error['input']), '')}")
    secret = "password" in setting or tuple(loc) in _secrets()
    default = _default_of(setting, scheme)
    hint = "`spotsieve config example` shows the default and the unit"
    if default is not None and not secret:
        hint = f"its default is {default}; `spotsieve config example` shows the unit"
    return SettingError(name, rule, None if secret else error["input"], hint)


def _not_a_section(name: str, below: str) -> SettingError:
    """The error for a name below a setting. below: the full name"""
    then = f"leave out what follows its name in {below}; {FILE} directly behind the name of a secret names a file"
    return SettingError(name, "is a setting, not a section", None, then)


def _default_of(setting: str, scheme: str) -> str | None:
    """The default of a setting in TOML; None if it has no default or is a section."""
    section, _, name = setting.partition(".")
    if section == "scheme":
        field = SCHEME_SETTINGS[scheme].model_fields.get(name)
    else:
        field = next((field for path, field in leaf_settings(Settings) if ".".join(path) == setting), None)
    value = None if field is None else field.default
    return json.dumps(value) if isinstance(value, (bool, int, float, str)) else None


def _unknown_setting(name: str, setting: str, scheme: str) -> SettingError:
    """The error for an unknown name, or for a setting of another scheme."""
    field = setting.removeprefix("scheme.")
    owners = [other for other, model in SCHEME_SETTINGS.items() if field in model.model_fields]
    if setting.startswith("scheme.") and owners:
        rule = f"is not a setting of the scheme {scheme}, but of {', '.join(owners)}"
        return SettingError(name, rule, None, f'leave it out, or write name = "{owners[0]}" in [scheme]')
    own = {f"scheme.{field}" for field in SCHEME_SETTINGS[scheme].model_fields}
    paths = {".".join(path) for path, _ in leaf_settings(Settings)}
    known = sorted(path for path in paths if not path.startswith("scheme.") or path in own)
    sections = sorted({prefix for path in known for prefix in _sections_above(path)})
    near = RENAMED.get(setting) or next(iter(difflib.get_close_matches(setting, known + sections, n=1, cutoff=0.5)), "")
    hint = f"did you mean {near}?" if near else "`spotsieve config example` lists all settings"
    return SettingError(name, "is not a setting", None, hint)


def _sections_above(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]
