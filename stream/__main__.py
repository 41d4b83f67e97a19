"""`python -m spotsieve.stream` is the same as the `spotsieve` command."""

import sys

from spotsieve.stream.cli import main

sys.exit(main())
