"""Writes docs/configuration.md: every setting with its default, unit and whether it changes verdicts."""

from collections.abc import Iterator

from pydantic import BaseModel

from spotsieve.stream.settings.load import about, leaf_settings, sections_of, tables_of, toml_value
from spotsieve.stream.settings.model import Settings

HEAD = """# Configuration

<!-- Written by `spotsieve config reference`; a test compares. -->

Every setting with its default, as `spotsieve config reference` prints it. `spotsieve config example` prints the same as
a TOML file to start from, and `spotsieve config check` says all that is wrong with one.

A setting comes from the file that `-c` names (`spotsieve.toml`), then from the environment, then from flags; the later
one wins. `kafka.group_id` is `SPOTSIEVE_KAFKA__GROUP_ID` in the environment and `--set kafka.group_id=...` as a flag.

**verdicts** marks what changes verdicts. A state and its log belong to one choice of these, and are refused with
another.
"""


def reference_markdown() -> str:
    """The page, as Markdown: a list for each section, and one for each scheme. A narrow screen shows lists well."""
    lines = [HEAD]
    for name, field in Settings.model_fields.items():
        for section in sections_of(field.annotation):
            chosen = section.model_fields.get("name") if name == "scheme" else None
            lines.append(f"## {name}" if chosen is None else f"## scheme: {chosen.default}")
            lines.extend(("", about(section), "", *_entries(section, name), ""))
        for table in tables_of(field.annotation):
            about_all = f"{str(field.description).capitalize()}: each a table `[[{name}]]`. {about(table)}"
            lines.extend((f"## {name}", "", about_all, "", *_entries(table, name), ""))
    return "\n".join(lines)


def _entries(section: type[BaseModel], name: str) -> Iterator[str]:
    for path, field in leaf_settings(section, (name,)):
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        default = toml_value(field.default)
        shown = default if len(default) <= _LONGEST else f"{default[:_LONGEST]} ..."
        notes = [f"- `{'.'.join(path)} = {shown}`:", str(field.description)]
        if extra.get("unit"):
            notes.append(f"({extra['unit']})")
        if extra.get("verdicts"):
            notes.append("**verdicts**")
        yield " ".join(notes)


_LONGEST = 60
"""Characters of a default; the rest of a longer one, a list, is in `config example`."""
