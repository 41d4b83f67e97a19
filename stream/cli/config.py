"""`spotsieve config` prints an example file, or checks a configuration."""

import argparse
import sys
from collections.abc import Callable
from functools import partial

from spotsieve.stream.cli.settings import add_settings_arguments, settings_of
from spotsieve.stream.errors import EXIT_OK, EXIT_SETTING, SettingError
from spotsieve.stream.text_safety import show


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
        from spotsieve.stream.settings.load import example_toml

        show(*example_toml().splitlines())
        return EXIT_OK
    if options.action == "reference":
        from spotsieve.stream.settings.reference import reference_markdown

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
    from spotsieve.stream.intake import Decoder
    from spotsieve.stream.kafka.client.clients import CLIENT_CHECKS
    from spotsieve.stream.kafka.topic.topics import check_topic_names
    from spotsieve.stream.schemes.registry import scheme_in_scope
    from spotsieve.stream.sharding.limits import limits_in_shards

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
