"""Writes a public data set as a labelled set, which `spotsieve score` and bench/quality read too."""

import gzip
import lzma
from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson

from bench.public.datasets import PUBLIC, PublicTexts
from bench.public.hub import download
from bench.quality.sets import TEXTS_FILE
from spotsieve.stream.files.verdict_lines import page_line
from spotsieve.stream.research.evaluation.trial import PAGES_FILE
from spotsieve.stream.research.scoring.truth import PAIRS_FILE, TRUTH_FILE

SIMILARITY = 1.0
"""The similarity of a listed pair: the data sets say that two texts are copies, not how similar they are."""


def prepare(name: str, data: Path) -> Path:
    """The folder of a public data set as a labelled set; it is downloaded and converted once. Raises DownloadError.

    Files that someone put into the folder `raw` are taken as they are, in any layout of datasets.py.
    """
    folder, chosen = data / name, PUBLIC[name]
    if not (folder / PAIRS_FILE).exists():
        raw = folder / "raw"
        if not raw.is_dir() or not any(raw.iterdir()):
            download(*chosen.hub, raw)
        write_labelled(folder, name, chosen.read(raw))
    return folder


def write_labelled(folder: Path, name: str, found: PublicTexts) -> None:
    """Write pages, main texts and labels; the pairs come last, so that an interrupted run starts again."""
    places = {text.name: place for place, text in enumerate(found.texts)}
    pages = (page_line(text.name, f"https://{name}.example/{text.name}", 0, False, text.text) for text in found.texts)
    texts = (orjson.dumps({"id": text.name, "text": text.text}) for text in found.texts)
    ordered = {tuple(sorted((places[one], places[other]))) for one, other in found.pairs}
    pairs = [
        (found.texts[one].name, found.texts[other].name, str(SIMILARITY), found.texts[other].kind)
        for one, other in sorted(ordered)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for file, lines in ((PAGES_FILE, pages), (TEXTS_FILE, texts)):
        with lzma.open(folder / file, "wb", preset=1) as out:
            out.writelines(line + b"\n" for line in lines)
    _write_table(folder / TRUTH_FILE, ("id", "kind"), ((text.name, text.kind) for text in found.texts))
    _write_table(folder / PAIRS_FILE, ("id_a", "id_b", "similarity", "kind"), pairs)


def _write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    partial = path.with_name(f"{path.name}.partial")
    with gzip.open(partial, "wt", encoding="utf-8") as out:
        out.writelines("\t".join(row) + "\n" for row in (header, *rows))
    partial.rename(path)
