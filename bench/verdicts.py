"""`python -m bench.verdicts` compares every scheme's verdicts on the labelled sets with docs/measured/verdicts.json.

    .venv/bin/python -m bench.verdicts [--write] [--scheme NAME ...] [SET ...]

It shows that a change leaves verdicts alone: the exit code is 1 if a digest differs from the file. A change that is
meant to change verdicts rewrites the file (--write) and gives the reason in CHANGELOG.md.
"""

import argparse
import contextlib
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from spotsieve.stream.base.progress import ProgressLine
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.files.outputs import OutputFile
from spotsieve.stream.research.evaluation import ALL
from spotsieve.stream.research.evaluation.choices import named_schemes, single, with_model
from spotsieve.stream.research.evaluation.planning import build_models
from spotsieve.stream.research.evaluation.trial import score_set
from spotsieve.stream.research.scoring import load_truth
from spotsieve.stream.sign.schemes.registry import scheme_of

ROOT = Path(__file__).resolve().parents[1]
SETS = tuple(ROOT.parent / "shared" / "data" / name for name in ("news", "docs", "newsgroups", "catalogue"))
KEPT = ROOT / "docs" / "measured" / "verdicts.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge, then compare or write; returns 1 if a digest differs. Raises SpotsieveError."""
    parser = argparse.ArgumentParser("python -m bench.verdicts", description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="*", type=Path, default=SETS, metavar="SET")
    parser.add_argument(
        "--scheme", nargs="+", default=[ALL], metavar="NAME", help="only these schemes (name the sets first)"
    )
    parser.add_argument(
        "--write", action="store_true", help="store the digests instead of comparing them with the stored ones"
    )
    options = parser.parse_args(arguments)
    kept = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    differing = 0
    for folder in options.sets:
        before = kept.setdefault(folder.name, {})
        for scheme, digest in verdict_digests(folder, options.scheme).items():
            if options.write:
                before[scheme] = digest
            same = before.get(scheme) == digest
            differing += not same
            print(f"{folder.name:<12} {scheme:<18} {digest}  {'as kept' if same else 'DIFFERS'}", flush=True)
    if options.write:
        KEPT.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n", "utf-8")
    return min(differing, 1)


def verdict_digests(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The first 128 bits of the SHA-256 of a set's verdict lines, by scheme. Models are built from the set."""
    settings, truth = load_settings(None, {}, {}), load_truth(folder)
    digests = {}
    with TemporaryDirectory() as built:
        schemes = named_schemes(names, settings)
        models = build_models(folder, settings, schemes, Path(built), lambda *_: None)
        for scheme in (with_model(scheme, models) for scheme in schemes):
            compile_kernels(scheme_of(scheme))
            lines = Path(built) / "verdicts.jsonl"
            out = OutputFile(str(lines))
            with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
                score_set(folder, truth, [single(settings, scheme)], line, out)
            out.complete()
            digests[str(scheme.name)] = hashlib.sha256(lines.read_bytes()).hexdigest()[:32]
            lines.unlink()
    return digests


if __name__ == "__main__":
    sys.exit(main())
