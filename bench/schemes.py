"""`python -m bench.schemes` measures the tables and plots of docs/measured/schemes.md.

    .venv/bin/python -m bench.schemes [SET ...]

Each scheme runs with its defaults and over a range of thresholds, on each set (default: the sets in ../shared/data).
The program replaces the text between two comments in docs/measured/schemes.md, and the plots in
docs/measured/schemes/. People write the rest of the page.
"""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from spotsieve.stream.base.progress import ProgressLine
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.research.evaluation import ALL
from spotsieve.stream.research.evaluation.choices import named_schemes, over_its_threshold, with_model
from spotsieve.stream.research.evaluation.planning import build_models
from spotsieve.stream.research.evaluation.plots import plot
from spotsieve.stream.research.evaluation.report import measured_on
from spotsieve.stream.research.evaluation.trial import SetResult, score_set
from spotsieve.stream.research.labelling.page_texts import set_texts
from spotsieve.stream.research.scoring import load_truth
from spotsieve.stream.research.scoring.comparison import MEANINGS, comparison_text
from spotsieve.stream.sign.schemes.registry import scheme_of

ROOT = Path(__file__).resolve().parents[1]
SETS = tuple(ROOT.parent / "shared" / "data" / name for name in ("news", "docs", "newsgroups"))
BEGIN = "<!-- From here to the end of this section written by `python -m bench.schemes`. -->"
END = "<!-- End of what is written by `python -m bench.schemes`. -->"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, draw and write; returns 0. Raises SpotsieveError."""
    parser = argparse.ArgumentParser(
        "python -m bench.schemes", description="Write the figures of docs/measured/schemes.md."
    )
    parser.add_argument("sets", nargs="*", type=Path, default=SETS, metavar="SET")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "measured" / "schemes.md", help="(%(default)s)")
    options = parser.parse_args(arguments)
    plots = options.page.with_suffix("")
    plots.mkdir(exist_ok=True)
    parts = [f"Measured on {', '.join(measured_on(datetime.now(UTC)))}; CPU on a machine that others use is more."]
    for folder in options.sets:
        print(folder.name, file=sys.stderr, flush=True)
        outcome = measure(folder)
        own = {str(one.settings.scheme.name): outcome.scored[one.name] for one in outcome.choices if one.own}
        file = plots / f"{folder.name}.svg"
        file.write_bytes(plot([outcome], [folder.name], "svg"))
        table = "\n".join(comparison_text(own))
        parts += [f"## {folder.name}", f"```\n{table}\n```", f"![{folder.name}]({plots.name}/{file.name})"]
    text = options.page.read_text("utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    options.page.write_text("\n\n".join([before + BEGIN, *parts, MEANINGS, END + after]), "utf-8")
    return 0


def measure(folder: Path) -> SetResult:
    """The results of every scheme on a set, over its thresholds; models are built from the set's own pages."""
    settings, truth = load_settings(None, {}, {}), load_truth(folder)
    with TemporaryDirectory() as built:
        schemes = named_schemes([ALL], settings)
        models = build_models(folder, settings, schemes, Path(built), lambda *_: None)
        schemes = [with_model(scheme, models) for scheme in schemes]
        for scheme in schemes:
            compile_kernels(scheme_of(scheme))
        choices = [choice for scheme in schemes for choice in over_its_threshold(settings, scheme)]
        with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
            texts = set_texts(folder, truth.ids, settings)
            scored = score_set(folder, truth, choices, line, texts=texts)
    return SetResult(folder, truth, choices, scored, {}, [])


if __name__ == "__main__":
    sys.exit(main())
