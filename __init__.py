"""Spotsieve, a streaming near-duplicate filter for web crawlers.

`spotsieve.stream` has the way of a page, from bytes to verdict, and the service around it. `spotsieve.state` has what
is remembered. The project's folder is this package, and nothing else is installed at top level.
"""

__version__ = "0.1.0"
