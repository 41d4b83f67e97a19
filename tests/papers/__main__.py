"""python -m tests.papers SET ...: tables for docs/papers.md, over labelled sets such as ../shared/data/docs."""

import argparse
from pathlib import Path

from tests.papers import yuan


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.papers", description=__doc__)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET")
    for folder in parser.parse_args().sets:
        print(f"Yuan et al. 2012, figure 6, over {folder.name}\n", *yuan.table(folder), "", sep="\n")


if __name__ == "__main__":
    main()
