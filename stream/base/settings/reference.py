"""Writes the settings for people: an example file (TOML) and the reference page (Markdown)."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, SecretStr

from spotsieve.stream.base.settings.load import ENVIRONMENT_PREFIX, SECTION_SEPARATOR, unknown_scheme
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import DEFAULT_SCHEME, SCHEME_SETTINGS
from spotsieve.stream.base.settings.section import leaf_settings, sections_of, tables_of

HEAD = """# Configuration

<!-- Written by `spotsieve config reference`; a test compares. -->

Every setting with its default, as `spotsieve config reference` prints it. `spotsieve config example` prints the same as
a TOML file to start from, with the settings of one scheme (`--scheme NAME`). `spotsieve config check` lists all
mistakes in a configuration.

A setting comes from the file that `-c` names (`spotsieve.toml`), then from the environment, then from flags; the later
one wins. `kafka.group_id` is `SPOTSIEVE_KAFKA__GROUP_ID` in the environment and `--set kafka.group_id=...` as a flag.

**verdicts** marks settings that change verdicts. A state and its log belong to one choice of these settings, and are
rejected with any other choice.
"""
_OFTEN_SET = ("kafka", "topics", "input")
"""The sections that most people change, at the beginning of the example."""
_MAX_DEFAULT = 60
"""Characters of a default on the page. `config example` has longer ones, which are lists, in full."""


def reference_markdown() -> str:
    """The reference page: a list for each section, and one for each scheme. Lists fit a narrow screen."""
    lines = [HEAD]
    for name, field in Settings.model_fields.items():
        for section in sections_of(field.annotation):
            scheme = section.model_fields.get("name") if name == "scheme" else None
            lines.append(f"## {name}" if scheme is None else f"## scheme: {scheme.default}")
            lines.extend(("", _about(section), "", *_reference_entries(section, name), ""))
        for table in tables_of(field.annotation):
            about = f"{str(field.description).capitalize()}: each a table `[[{name}]]`. {_about(table)}"
            lines.extend((f"## {name}", "", about, "", *_reference_entries(table, name), ""))
    return "\n".join(lines)


def example_toml(scheme: str = DEFAULT_SCHEME) -> str:
    """Every setting with its default, unit and whether it changes verdicts, as a TOML file that loads.

    scheme: the scheme whose settings the section [scheme] has. Raises SettingError for an unknown one.
    """
    if scheme not in SCHEME_SETTINGS:
        raise unknown_scheme("--scheme", scheme)
    lines = [
        "# Spotsieve settings. Every line is the default; change what you need.",
        "# [verdicts] marks settings that change verdicts: a state and its log belong to one choice of these.",
        f"# Environment: {ENVIRONMENT_PREFIX}KAFKA{SECTION_SEPARATOR}GROUP_ID=... sets kafka.group_id; flags win.",
    ]
    lines.extend(_example_section((), Settings, scheme))
    return "\n".join(lines) + "\n"


def _reference_entries(section: type[BaseModel], name: str) -> Iterator[str]:
    for path, field in leaf_settings(section, (name,)):
        default = _toml_value(field.default)
        shown = default if len(default) <= _MAX_DEFAULT else f"{default[:_MAX_DEFAULT]} ..."
        yield " ".join((f"- `{'.'.join(path)} = {shown}`:", *_notes(field, "({})", "**verdicts**")))


def _example_section(path: tuple[str, ...], model: type[BaseModel], scheme: str) -> Iterator[str]:
    if path:
        yield ""
        yield f"# {_about(model)}"
        yield f"[{'.'.join(path)}]"
    yield from _example_settings(model)
    names = sorted(model.model_fields, key=lambda name: (*_OFTEN_SET, name).index(name))
    for name in names:
        kinds = sections_of(model.model_fields[name].annotation)
        if len(kinds) > 1:
            yield ""
            yield "# `spotsieve config example --scheme NAME` has the settings of another scheme. NAME is one of:"
            yield f"# {', '.join(other for other in SCHEME_SETTINGS if other != scheme)}."
            kinds = [SCHEME_SETTINGS[scheme]]
        for kind in kinds:
            yield from _example_section((*path, name), kind, scheme)


def _example_settings(model: type[BaseModel]) -> Iterator[str]:
    """The plain settings of one section, each below its comment."""
    for name, field in model.model_fields.items():
        if sections_of(field.annotation):
            continue
        yield f"# {' '.join(_notes(field, '[{}]', '[verdicts]'))}"
        tables = tables_of(field.annotation)
        if tables:
            # The list is a comment: [[tables]] at the end of the file cannot extend a list that is written out.
            shown = {each: own.examples[0] for each, own in tables[0].model_fields.items() if own.examples}
            table = ", ".join(f"{each} = {_toml_value(value)}" for each, value in shown.items())
            yield f"#{name} = [{{ {table} }}]"
        else:
            yield f"{name} = {_toml_value(field.default)}"


def _notes(field: Any, unit: str, verdicts: str) -> Iterator[str]:
    """The description of a setting, its unit in this format, and this mark if the setting changes verdicts."""
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    yield str(field.description)
    if extra.get("unit"):
        yield unit.format(extra["unit"])
    if extra.get("verdicts"):
        yield verdicts


def _about(model: type[BaseModel]) -> str:
    """The first line of a section's docstring."""
    return (model.__doc__ or "").strip().splitlines()[0]


def _toml_value(value: object) -> str:
    """A default in TOML; an empty string for a secret and for a setting without a default."""
    if value is None or isinstance(value, SecretStr):
        return '""'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        return json.dumps(list(value))
    return json.dumps(str(value))
