"""The settings text: all settings that change verdicts, in canonical form, and its digest.

A state and a log store the text, and every log record carries the digest. Settings with another text are rejected.
"""

import json
from collections.abc import Iterator
from typing import Any

import xxhash
from pydantic import BaseModel

VERDICTS_REVISION = 4
"""Incremented when the same settings give other verdicts than before: a changed kernel or built-in word list."""

_SCHEME, _KEEP = "scheme.name", "policy.keep"
CANONICAL = "canonical"
"""The value of policy.keep by which pages are ranked when they are signed."""
RANKED_BY_FIELD = ("highest", "lowest")
"""The values of policy.keep by which pages have the ranks of input.rank_from."""
RANKED = (*RANKED_BY_FIELD, CANONICAL)
"""The values of policy.keep by which pages have ranks, which their entries store."""


def verdict_settings_text(settings: BaseModel) -> str:
    """The settings text: a JSON object of dotted name -> value, sorted by name, without blanks."""
    fields = dict(_verdict_fields(settings, ""))
    return json.dumps({"revision": VERDICTS_REVISION, **fields}, sort_keys=True, separators=(",", ":"))


def settings_digest(text: str) -> bytes:
    """XXH3-128 of the settings text: 16 bytes."""
    return xxhash.xxh3_128_digest(text.encode())


def digest_of_settings(settings: BaseModel) -> bytes:
    """The digest of the settings text of these settings."""
    return settings_digest(verdict_settings_text(settings))


def signing_text(settings: BaseModel) -> str:
    """The settings text without the settings that only judging reads. Equal texts mean equal signatures."""
    text = verdict_settings_text(settings)
    return _without(text, _judging_only(settings, text))


def signing_difference(stored: str, settings: BaseModel) -> str:
    """The settings that give other signatures than the stored text: one clause for each difference, "" for none.

    Settings that only judging reads are left out. The revision counts: a release that increments it may sign otherwise.
    """
    text = verdict_settings_text(settings)
    judging_only = _judging_only(settings, stored, text)
    return describe_difference(_without(stored, judging_only), _without(text, judging_only), "log")


def _judging_only(settings: BaseModel, *texts: str) -> set[str]:
    """The settings that only judging reads, under each of these settings texts."""
    names = {name for name, signs in _verdict_names(settings, "") if not signs}
    if any(json.loads(text).get(_KEEP) == CANONICAL for text in texts):
        names.discard(_KEEP)  # Its ranks are signed.
    return names


def _without(text: str, names: set[str]) -> str:
    """A settings text without some settings."""
    return json.dumps({name: value for name, value in json.loads(text).items() if name not in names})


def describe_difference(stored: str, configured: str, stored_name: str) -> str:
    """One clause for each setting that differs, with both values; "" if none differs.

    Of two different schemes only the names are compared.
    stored, configured: settings texts  stored_name: the place of the stored text, such as "state"
    """
    there, here = json.loads(stored), json.loads(configured)
    if there.get(_SCHEME) != here.get(_SCHEME):
        there, here = ({name: value for name, value in one.items() if _is_comparable(name)} for one in (there, here))
    clauses = [
        f"{name} is {_shown(there, name)} in the {stored_name} and {_shown(here, name)} in the configuration"
        for name in sorted(there.keys() | here.keys())
        if there.get(name) != here.get(name) or (name in there) != (name in here)
    ]
    return "; ".join(clauses)


def _is_comparable(name: str) -> bool:
    """Whether a setting exists in every scheme."""
    return name == _SCHEME or not name.startswith("scheme.")


def _shown(fields: dict[str, Any], name: str) -> str:
    return json.dumps(fields[name]) if name in fields else "absent"


def _verdict_fields(model: BaseModel, prefix: str) -> Iterator[tuple[str, Any]]:
    """The dotted name and the JSON value of every setting of the text."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _verdict_fields(value, f"{prefix}{name}.")
        elif isinstance(extra := field.json_schema_extra, dict) and extra.get("verdicts"):
            if value == field.default and not extra["stored_default"]:
                continue
            yield prefix + name, model.model_dump(mode="json", include={name})[name]


def _verdict_names(model: BaseModel, prefix: str) -> Iterator[tuple[str, bool]]:
    """The dotted name of every setting that changes verdicts, and whether signatures depend on it."""
    for name, field in type(model).model_fields.items():
        value, extra = getattr(model, name), field.json_schema_extra
        if isinstance(value, BaseModel):
            yield from _verdict_names(value, f"{prefix}{name}.")
        elif isinstance(extra, dict) and extra.get("verdicts"):
            yield prefix + name, bool(extra["signs"])
