"""Writes the table of docs/measured/speed.md from bench.json: `make bench`, or `python -m bench.speed.page`."""

import json

from bench.speed import report

PAGE = report.bench_file().with_name("speed.md")
BEGIN = "<!-- The table is written by `make bench` (bench/speed/page.py) from docs/measured/bench.json. -->"
END = "<!-- End of the table of speeds. -->"


def with_table(text: str) -> str:
    """The page's text with the table of figures from docs/measured/bench.json. Raises ValueError without its marks."""
    table = report.table(json.loads(report.bench_file().read_text("utf-8")))
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:begin]}\n\n{table}\n\n{text[end:]}"


def rewrite() -> None:
    """Update docs/measured/speed.md."""
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    rewrite()
