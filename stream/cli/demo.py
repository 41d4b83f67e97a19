"""`spotsieve demo` filters a small crawl on a real Kafka, and shows what is dropped and why."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve demo`."""
    parser.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT",
        help="use this Kafka: topics get a prefix of their own and are deleted at the end (default: start one here)",
    )
    parser.add_argument("--keep", action="store_true", help="leave broker and filter running until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print JSON; progress goes to standard error")


def run(options: argparse.Namespace) -> int:
    """Run the demo; the exit code is 0, or 1 if a page was lost or doubled."""
    # Not imported for --help: numba and aiokafka take a second.
    from spotsieve.stream.demo.session import run_demo

    return run_demo(options.bootstrap_servers, keep=options.keep, as_json=options.json)
