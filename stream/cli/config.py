"""Owns `spotsieve config`: the example file, and a check of the settings one has."""

import argparse

from spotsieve.stream.cli.settings import add_settings_arguments, settings_of
from spotsieve.stream.settings.load import example_toml
from spotsieve.stream.text_safety import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve config`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("example", help="print every setting with its default, unit, and whether it changes verdicts")
    check = actions.add_parser("check", help="load the settings and say what is wrong")
    add_settings_arguments(check)


def run(options: argparse.Namespace) -> int:
    """Print the example, or check."""
    if options.action == "example":
        show(*example_toml().splitlines())
        return 0
    settings = settings_of(options)
    from spotsieve.stream.intake import Decoder
    from spotsieve.stream.kafka.topics import check_topic_names
    from spotsieve.stream.schemes.registry import scheme_of

    # What no single setting can say: whether those of a scheme, of the input and of the topics go together.
    scheme_of(settings.scheme)
    Decoder(settings.input)
    check_topic_names(settings.topics)
    show("the settings are valid")
    return 0
