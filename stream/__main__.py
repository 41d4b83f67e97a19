"""Owns `python -m spotsieve.stream`: the same as the `spotsieve` command."""

import sys

from spotsieve.stream.cli import main

sys.exit(main())
