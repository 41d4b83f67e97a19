"""`spotsieve config` prints an example file, or checks a configuration.

Writes docs/configuration.md: every setting with its default, unit and whether it changes verdicts.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial

from pydantic import BaseModel

from spotsieve.stream.base.errors import EXIT_OK, EXIT_SETTING, SettingError
from spotsieve.stream.base.settings.load import about, leaf_settings, sections_of, tables_of, toml_value
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import add_settings_arguments, settings_of

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve config`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("example", help="print every setting with its default, unit, and whether it changes verdicts")
    actions.add_parser("reference", help="the same as a Markdown page")
    check = actions.add_parser("check", help="load the settings and say what is wrong")
    add_settings_arguments(check)


def run(options: argparse.Namespace) -> int:
    """Print the example or the reference, or check."""
    if options.action == "example":
        from spotsieve.stream.base.settings.load import example_toml

        show(*example_toml().splitlines())
        return EXIT_OK
    if options.action == "reference":
        show(*reference_markdown().splitlines())
        return EXIT_OK
    errors = _errors(options)
    if errors:
        show(*(f"spotsieve: {error}" for error in errors), to=sys.stderr)
        return EXIT_SETTING
    show("the settings are valid")
    return EXIT_OK


def _errors(options: argparse.Namespace) -> list[SettingError]:
    """Everything that is wrong, so that nobody corrects one setting a run."""
    try:
        settings = settings_of(options)
    except SettingError as error:
        return [error, *error.others]
    from spotsieve.stream.kafka.clients import CLIENT_CHECKS
    from spotsieve.stream.kafka.topics import check_topic_names
    from spotsieve.stream.sharding.rounds import limits_in_shards
    from spotsieve.stream.sign.intake import Decoder
    from spotsieve.stream.sign.schemes.registry import scheme_in_scope

    def check_judging() -> None:
        scheme = scheme_in_scope(settings)
        if settings.cluster.shards:
            limits_in_shards(settings, scheme)

    # Some settings are right alone and wrong together: those of a scheme, of the input, of the topics and of clients.
    checks: tuple[Callable[[], object], ...] = (
        check_judging,
        lambda: Decoder(settings.input),
        lambda: check_topic_names(settings),
        *(partial(check, settings.kafka) for check in CLIENT_CHECKS),
    )
    found = []
    for check in checks:
        try:
            check()
        except SettingError as error:
            found.append(error)
    return found
