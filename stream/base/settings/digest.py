"""Writes the settings that change verdicts as one canonical text. A state and a log are bound to its digest."""

import json
from collections.abc import Iterator
from typing import Any

import xxhash
from pydantic import BaseModel

VERDICTS_REVISION = 3
"""Raised whenever the same settings would give other verdicts than before (a changed kernel or built-in word list)."""

_SCHEME = "scheme.name"


def verdict_settings_text(settings: BaseModel) -> str:
    """Every setting below `settings` that changes verdicts, by its dotted name, as JSON with sorted names."""
    fields = dict(_verdict_fields(settings, ""))
    return json.dumps({"revision": VERDICTS_REVISION, **fields}, sort_keys=True, separators=(",", ":"))


def settings_digest(text: str) -> bytes:
    """XXH3-128 of the canonical text: 16 bytes, carried by every log record."""
    return xxhash.xxh3_128_digest(text.encode())


def signing_difference(stored: str, settings: BaseModel) -> str:
    """What of a stored canonical text makes other signatures than these settings: a clause for each, or "".

    Settings that are only judged by are left out. Another revision counts: a release that raises it may sign otherwise.
    """
    judged = {name for name, signs in _verdict_names(settings, "") if not signs}
    configured = json.loads(verdict_settings_text(settings))
    there, here = (
        json.dumps({name: value for name, value in fields.items() if name not in judged})
        for fields in (json.loads(stored), configured)
    )
    return describe_difference(there, here, "log")


def describe_difference(stored: str, configured: str, stored_name: str) -> str:
    """One clause for each setting that differs, with both values. For two schemes only the names are compared."""
    there, here = json.loads(stored), json.loads(configured)
    if there.get(_SCHEME) != here.get(_SCHEME):
        there, here = ({name: value for name, value in one.items() if _tells(name)} for one in (there, here))
    clauses = [
        f"{name} is {_shown(there, name)} in the {stored_name} and {_shown(here, name)} in the configuration"
        for name in sorted(there.keys() | here.keys())
        if there.get(name) != here.get(name) or (name in there) != (name in here)
    ]
    return "; ".join(clauses)


def _tells(name: str) -> bool:
    return name == _SCHEME or not name.startswith("scheme.")


def _shown(fields: dict[str, Any], name: str) -> str:
    return json.dumps(fields[name]) if name in fields else "absent"


def _verdict_fields(model: BaseModel, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _verdict_fields(value, f"{prefix}{name}.")
        elif isinstance(extra := field.json_schema_extra, dict) and extra.get("verdicts"):
            if value == field.default and not extra["told"]:
                continue
            yield prefix + name, model.model_dump(mode="json", include={name})[name]


def _verdict_names(model: BaseModel, prefix: str) -> Iterator[tuple[str, bool]]:
    """Every setting that changes verdicts, by its dotted name, and whether signatures are made by it."""
    for name, field in type(model).model_fields.items():
        value, extra = getattr(model, name), field.json_schema_extra
        if isinstance(value, BaseModel):
            yield from _verdict_names(value, f"{prefix}{name}.")
        elif isinstance(extra, dict) and extra.get("verdicts"):
            yield prefix + name, bool(extra["signs"])
