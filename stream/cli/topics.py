"""`spotsieve topics` creates the topics that are missing, or checks those that are there."""

import argparse

from spotsieve.stream.cli.settings import add_settings_arguments, settings_of
from spotsieve.stream.text_safety import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve topics`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser(
        "create", help="create those that are missing; the log gets one partition, kept for ever"
    )
    check = actions.add_parser("check", help="say whether they are there and fit")
    for action in (create, check):
        add_settings_arguments(action)
        action.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="brokers (kafka.bootstrap_servers)")
    create.add_argument(
        "--partitions", type=_count, default=4, metavar="N", help="partitions of input and outputs (default 4)"
    )
    create.add_argument(
        "--replication", type=_count, default=1, metavar="N", help="copies of each (default 1; 3 in production)"
    )


def run(options: argparse.Namespace) -> int:
    """Create or check."""
    import asyncio  # --help takes a tenth of a second longer with it

    settings = settings_of(options, {"kafka.bootstrap_servers": options.bootstrap_servers})
    from spotsieve.stream.kafka.topics import check_topics, create_topics, topic_names
    from spotsieve.stream.observe.logs import configure_logs

    configure_logs(settings.log, of_a_command=True)
    if options.action == "create":
        made = asyncio.run(create_topics(settings, options.partitions, options.replication))
        for name, new in made.items():
            show(f"{name}: {'created' if new else 'was there'}")
    facts = asyncio.run(check_topics(settings))
    for role, name in topic_names(settings.topics).items():
        show(f"{name}: fits as topics.{role}, {facts[role].partitions} partition(s)")
    return 0


def _count(text: str) -> int:
    """A whole number from 1, or argparse's words for one that is not."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text!r}")
    return number
