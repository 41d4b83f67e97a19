"""`spotsieve demo` filters a small crawl on a real Kafka, and shows what is dropped and why."""

import argparse

from spotsieve.stream.errors import EXIT_OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `spotsieve demo`."""
    parser.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT",
        help="use this Kafka: topics get a prefix of their own and are deleted at the end (default: start one here)",
    )
    parser.add_argument("--keep", action="store_true", help="leave broker and filter running until Ctrl-C")
    parser.add_argument(
        "--crawl", metavar="FILE", help="only write the demo's made-up pages to this JSONL file, for filter and review"
    )
    parser.add_argument("--json", action="store_true", help="print JSON; progress goes to standard error")


def run(options: argparse.Namespace) -> int:
    """Run the demo; the exit code is 0, or 1 if a page was lost or doubled."""
    # Not imported for --help: numba and aiokafka take a second.
    if options.crawl:
        return _write_crawl(options.crawl)
    from spotsieve.stream.demo.session import run_demo

    return run_demo(options.bootstrap_servers, keep=options.keep, as_json=options.json)


def _write_crawl(name: str) -> int:
    """Write the pages of the demo, without its odd messages. Raises SettingError if the file is there already."""
    from spotsieve.stream.cli.outputs import check_new
    from spotsieve.stream.demo.crawl import build_crawl
    from spotsieve.stream.files.writer import OutputFile
    from spotsieve.stream.text_safety import show

    check_new({"crawl": name})
    out, pages = OutputFile(name), [sent for sent in build_crawl() if sent.article is not None]
    for sent in pages:
        out.write_line(sent.value or b"")
    out.complete()
    show(f"{len(pages)} made-up pages in {name}")
    return EXIT_OK
