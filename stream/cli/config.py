"""`spotsieve config` prints the settings, as an example file or a reference page, or checks a configuration."""

import argparse
import sys
from collections.abc import Callable
from functools import partial

from spotsieve.stream.base.errors import EXIT_OK, EXIT_SETTING, SettingError
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import add_settings_arguments, settings_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `spotsieve config`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    example = actions.add_parser(
        "example", help="print every setting with its default, unit, and whether it changes verdicts"
    )
    example.add_argument("--scheme", metavar="NAME", help="the scheme in the section [scheme] (spotsieve)")
    actions.add_parser("reference", help="print the same as a Markdown page")
    check = actions.add_parser("check", help="load the settings, and list all mistakes")
    add_settings_arguments(check)


def run(options: argparse.Namespace) -> int:
    """Print the example or the reference, or check the settings; returns the exit code."""
    if options.action != "check":
        from spotsieve.stream.base.settings.reference import example_toml, reference_markdown
        from spotsieve.stream.base.settings.schemes import DEFAULT_SCHEME

        example = options.action == "example"
        text = example_toml(options.scheme or DEFAULT_SCHEME) if example else reference_markdown()
        show(*text.splitlines())
        return EXIT_OK
    errors = _errors(options)
    if errors:
        show(*(f"spotsieve: {error}" for error in errors), to=sys.stderr)
        return EXIT_SETTING
    show("the settings are valid")
    return EXIT_OK


def _errors(options: argparse.Namespace) -> list[SettingError]:
    """All mistakes at once: otherwise each run would report one."""
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

    # Some settings are valid each and invalid together: those of a scheme, the input, the topics and the clients.
    checks: tuple[Callable[[], object], ...] = (
        check_judging,
        lambda: Decoder(settings.input),
        lambda: check_topic_names(settings),
        *(partial(check, settings.kafka) for check in CLIENT_CHECKS),
    )
    errors = []
    for check in checks:
        try:
            check()
        except SettingError as error:
            errors.append(error)
    return errors
