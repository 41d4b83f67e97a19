"""Compiles the kernels of several schemes into numba's cache: `python -m spotsieve.stream.warm [SCHEME ...]`.

Without a name it compiles those of all schemes whose models can be built here. An image is built with it
(deploy/Dockerfile).
"""

import json
import lzma
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from spotsieve.stream.base.errors import EXIT_OK, SettingError, SpotsieveError
from spotsieve.stream.base.settings.load import unknown_scheme
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import SCHEME_SETTINGS
from spotsieve.stream.base.terminal import show
from spotsieve.stream.engine.warmup import EDITED, STORY, compile_kernels
from spotsieve.stream.research.evaluation.choices import with_model
from spotsieve.stream.research.evaluation.planning import build_models
from spotsieve.stream.research.evaluation.trial import PAGES_FILE
from spotsieve.stream.sign.schemes.registry import scheme_of
from spotsieve.stream.sign.text.batch import message_span


def compile_named(name: str) -> None:
    """Compile the kernels of a scheme under its defaults; one that needs a model gets a model of our own pages.

    Raises SettingError for a name that no scheme has.
    """
    if name not in SCHEME_SETTINGS:
        raise unknown_scheme("SCHEME", name)
    given = SCHEME_SETTINGS[name]()
    message_span(b"")  # It shows texts of pages, and no page needs it to be judged.
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        lines = [json.dumps({"url": "https://warm.example/", "body": body}) for body in (STORY, EDITED, STORY[:400])]
        (folder / PAGES_FILE).write_bytes(lzma.compress("\n".join(lines).encode()))
        models = build_models(folder, Settings(), [given], folder, lambda *_: None)
        compile_kernels(scheme_of(with_model(given, models)))


def main(arguments: Sequence[str]) -> int:
    """Compile, and say which scheme's kernels are being compiled; the exit code."""
    try:
        for name in arguments or list(SCHEME_SETTINGS):
            show(f"compiling the kernels of {name}", to=sys.stderr)
            try:
                compile_named(name)
            except SettingError as error:
                if name in arguments:
                    raise
                # An image need not have scikit-learn, which builds the model of `concept`.
                show(f"spotsieve: skipped {name}: {error}", to=sys.stderr)
    except SpotsieveError as error:
        show(f"spotsieve: {error}", to=sys.stderr)
        return error.exit_code
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
