"""Owns `python -m stream`: the same as the `spotsieve` command."""

import sys

from stream.cli import main

sys.exit(main())
