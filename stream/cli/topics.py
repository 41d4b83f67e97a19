"""`spotsieve topics` creates or checks the topics, saves pages, or skips a damaged record of the log."""

import argparse
import math

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.terminal import show
from spotsieve.stream.cli.options import (
    NEWEST_PAGES,
    add_force_argument,
    add_settings_arguments,
    check_names,
    file_name,
    save_newest,
    settings_of,
    whole_number_within,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `spotsieve topics`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser(
        "create", help="create missing topics; the log has one partition and unlimited retention"
    )
    check = actions.add_parser("check", help="check that the topics exist and are configured correctly")
    skip = actions.add_parser(
        "skip-record",
        help="make all readers of the log skip a record that they cannot apply",
        epilog="Every worker stops at a damaged record of the log. If the log cannot be restored, this command appends "
        "a record that names the damaged one. Pages of the damaged record whose verdicts were not committed are read "
        "again from the input; of its other pages, the next copy is novel.",
    )
    skip.add_argument(
        "--offset",
        type=_offset,
        required=True,
        metavar="N",
        help="offset of the record, from the message of the worker",
    )
    save = actions.add_parser(
        "save",
        help="save the newest pages of the input topic to a file, for review, sample and calibrate",
        epilog="Writes JSON lines with the ids of verdicts and reports, in the order of message timestamps. Messages "
        "without a text page are skipped and counted.",
    )
    save.add_argument(
        "file", type=file_name, metavar="FILE", help="the file to write: .jsonl, and .gz, .xz or .zst to compress it"
    )
    save.add_argument(
        "--pages", type=_count, default=NEWEST_PAGES, metavar="N", help="about this many pages (%(default)s)"
    )
    add_force_argument(save)
    for action in (create, check, skip, save):
        add_settings_arguments(action)
        action.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="brokers (kafka.bootstrap_servers)")
    create.add_argument(
        "--partitions", type=_count, default=4, metavar="N", help="partitions of input and outputs (default 4)"
    )
    create.add_argument(
        "--replication", type=_count, default=1, metavar="N", help="copies of each (default 1; 3 in production)"
    )


def run(options: argparse.Namespace) -> int:
    """Run the named action and return the exit code."""
    import asyncio  # This would cost --help a tenth of a second.

    settings = settings_of(options, {"kafka.bootstrap_servers": options.bootstrap_servers})
    from spotsieve.stream.kafka.topics import check_topics, create_topics, names_of
    from spotsieve.stream.observe.logs import configure_logs

    configure_logs(settings.log, of_a_command=True)
    if options.action == "skip-record":
        from spotsieve.stream.service.log.skips import skip_record

        offset = asyncio.run(skip_record(settings, options.offset))
        show(
            f"{settings.topics.log}: record {offset} makes all readers skip record {options.offset}; "
            "now start the workers"
        )
        return 0
    if options.action == "save":
        check_names({"file": options.file}, [], options)
        if options.file == "-":
            raise SettingError("FILE", "must be a file, because it is complete only at the end", "-", "choose a name")
        save_newest(settings, options.file, options.pages)
        return 0
    if options.action == "create":
        made = asyncio.run(create_topics(settings, options.partitions, options.replication))
        for name, new in made.items():
            show(f"{name}: {'created' if new else 'exists'}")
    facts = asyncio.run(check_topics(settings, new=options.action == "create"))
    for role, name in names_of(settings).items():
        show(f"{name}: can be used as topics.{role}, {facts[role].partitions} partition(s)")
    return 0


def _offset(text: str) -> int:
    return whole_number_within(text, 0, math.inf, "a whole number from 0")


def _count(text: str) -> int:
    return whole_number_within(text, 1, math.inf, "a whole number from 1")
