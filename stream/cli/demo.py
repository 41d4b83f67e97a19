"""`spotsieve demo` filters a small crawl on a real Kafka, and shows the dropped pages with the reasons."""

import argparse
import sys
from pathlib import Path

from spotsieve.stream.base.errors import EXIT_OK, SettingError
from spotsieve.stream.cli.options import add_force_argument, check_names, file_name

REVIEWED_PAIRS = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `spotsieve demo`."""
    parser.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT",
        help="use this Kafka; the topics get their own prefix and are deleted at the end (default: start a broker)",
    )
    parser.add_argument("--keep", action="store_true", help="leave broker and filter running until Ctrl-C")
    parser.add_argument(
        "--crawl",
        type=file_name,
        metavar="FILE",
        help="only write the synthetic pages of the demo to this JSONL file, for filter and review",
    )
    add_force_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON; progress goes to standard error")


def run(options: argparse.Namespace) -> int:
    """Run the demo; returns 0, or 1 if a page was lost or doubled."""
    # Not imported for --help: numba and aiokafka take a second.
    if options.crawl:
        return _write_crawl(options.crawl, options)
    from spotsieve.stream.demo.session import run_demo

    code = run_demo(options.bootstrap_servers, keep=options.keep, as_json=options.json)
    if code == EXIT_OK and not options.keep and not options.json:
        _write_review()
        _name_dashboard()
    return code


def _write_crawl(name: str, options: argparse.Namespace) -> int:
    """Write the pages of the demo, without its malformed messages. Raises SettingError for wrong flags."""
    from spotsieve.stream.base.terminal import show
    from spotsieve.stream.files.targets import STDOUT

    for flag in ("bootstrap_servers", "keep", "json"):
        if getattr(options, flag):
            rule, then = "must not be used with --crawl, which only writes a file", "leave one of them out"
            raise SettingError(f"--{flag.replace('_', '-')}", rule, None, then)
    check_names({"crawl": name}, [], options)
    pages = _write_pages(name)
    show(f"{pages} synthetic pages in {name}", to=sys.stderr if name == STDOUT else sys.stdout)
    return EXIT_OK


def _write_pages(name: str) -> int:
    from spotsieve.stream.demo.crawl import build_crawl
    from spotsieve.stream.files.outputs import OutputFile

    out, pages = OutputFile(name), [sent for sent in build_crawl() if sent.article is not None]
    for sent in pages:
        out.write_line(sent.value or b"")
    out.complete()
    return len(pages)


def _write_review() -> None:
    """Write a review of the demo's pages to the cache directory, and print its URL."""
    from spotsieve.stream.base.settings.model import Settings
    from spotsieve.stream.base.terminal import show
    from spotsieve.stream.demo.localkafka.jars import cache_directory
    from spotsieve.stream.files import check_inputs
    from spotsieve.stream.files.outputs import write_whole
    from spotsieve.stream.research.labelling.population import draw, find_population
    from spotsieve.stream.research.labelling.review_page import review_page

    directory, settings = cache_directory(), Settings()
    directory.mkdir(parents=True, exist_ok=True)
    crawl, page = directory / "demo-crawl.jsonl", directory / "demo-review.html"
    _write_pages(str(crawl))
    inputs = check_inputs([str(crawl)])
    population = find_population(inputs, settings, None)
    strata = draw(population, REVIEWED_PAIRS, 0)
    write_whole(page, review_page(inputs, settings, population, strata, 0))
    show("", f"{REVIEWED_PAIRS} pairs of these pages, to label by eye (docs/evaluate.md)", f"  {page.as_uri()}")


def _name_dashboard() -> None:
    """Print the path of the dashboard, which a checkout has and a wheel does not."""
    import spotsieve
    from spotsieve.stream.base.terminal import show

    file = Path(spotsieve.__file__).resolve().parent / "deploy" / "grafana" / "dashboards" / "spotsieve.json"
    if file.is_file():
        show("", "The dashboard of a running filter, to import into Grafana", f"  {file.as_uri()}")
