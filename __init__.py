"""Spotsieve, a streaming near-duplicate filter for web crawlers.

`from spotsieve import Deduplicator` is the library (docs/library.md). `spotsieve.stream` holds the pipeline of a page,
from bytes to verdict, and the service around it. `spotsieve.state` holds the stored state. The project's folder is this
package; nothing else is installed at top level.
"""

from typing import TYPE_CHECKING

from spotsieve.stream.base.startup import choose_cpu

if TYPE_CHECKING:
    from spotsieve.stream.base.errors import PageError, SettingError, SpotsieveError, StateError
    from spotsieve.stream.local.library import (
        CrawledPage,
        Deduplicator,
        DuplicateVerdict,
        EmittedVerdict,
        ExtractedText,
        Original,
        Verdict,
    )

__version__ = "0.1.0"
__all__ = [
    "CrawledPage",
    "Deduplicator",
    "DuplicateVerdict",
    "EmittedVerdict",
    "ExtractedText",
    "Original",
    "PageError",
    "SettingError",
    "SpotsieveError",
    "StateError",
    "Verdict",
    "__version__",
]

choose_cpu()

if not TYPE_CHECKING:  # __getattr__ would hide missing names from a type checker.

    def __getattr__(name: str) -> object:
        """Import a name of __all__ on first use, because the kernels behind it take a second to load."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        errors = importlib.import_module("spotsieve.stream.base.errors")
        found = errors if hasattr(errors, name) else importlib.import_module("spotsieve.stream.local.library")
        return getattr(found, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
