"""`spotsieve model` counts the terms of a sample of pages, and writes the statistics that some schemes need."""

import argparse
import contextlib
import json
import sys
from typing import TYPE_CHECKING

from spotsieve.stream.base.errors import EXIT_OK, SettingError
from spotsieve.stream.base.terminal import json_text, show
from spotsieve.stream.cli.options import add_settings_arguments, local_path, settings_of, show_json

if TYPE_CHECKING:
    from spotsieve.stream.sign.schemes.terms import ConceptModel, IdfModel

BUILD_ABOUT = """Counts on how many pages each term of the scheme occurs, writes a model, and prints the settings that
name it by path and digest. Reads the same files as `spotsieve filter`; a sample of some thousand pages is enough, and
records that hold no page are skipped. The settings define a term (stop-words, spots): a model of other terms is
rejected. For the scheme concept, shingles are weighted and terms decomposed too, which needs scikit-learn (the extra
`lsi`: README, "Install"). Exit codes: 0 written; 2 wrong setting or usage, or MODEL exists; 3 a file that cannot be
read or written, or fewer than two pages."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `spotsieve model`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="count the terms of files of pages", description=BUILD_ABOUT)
    build.add_argument("files", nargs="+", metavar="FILE", help="files of pages; - is standard input")
    build.add_argument(
        "--scheme", dest="chosen_scheme", required=True, metavar="NAME", help="the scheme that uses the model"
    )
    build.add_argument("-o", "--out", type=local_path, required=True, metavar="MODEL", help="the model: a new file")
    add_settings_arguments(build)
    info = actions.add_parser("info", help="print the contents and the digest of a model")
    info.add_argument("model", metavar="MODEL")
    for action in (build, info):
        action.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Build a model, or print one; returns the exit code."""
    from spotsieve.stream.sign.schemes.terms import read_model

    name = _build(options) if options.action == "build" else None
    path = str(options.out if name else options.model)
    model, digest = read_model(path)
    facts = {"pages": model.pages, "terms": len(model.terms), "digest": digest}
    if options.json:
        show_json(facts | {"about": json.loads(model.about)})
    elif name:
        show(f"# {_counts(model)}", "[scheme]", f'name = "{name}"')
        show(f"idf_model = {json_text(path)}", f'idf_digest = "{digest}"')
    else:
        show(_counts(model), f"digest {digest}", f"about {model.about}")
    return EXIT_OK


def _build(options: argparse.Namespace) -> str:
    """Write a model; returns the name of the scheme."""
    from spotsieve.stream.base.progress import ProgressLine
    from spotsieve.stream.files import check_inputs, total_bytes
    from spotsieve.stream.files.outputs import write_whole
    from spotsieve.stream.research.models.concepts import build_model
    from spotsieve.stream.sign.schemes.registry import TERMS

    name = options.chosen_scheme
    if name not in TERMS:
        rule = f"must be one of {', '.join(TERMS)}, which need a model"
        raise SettingError("--scheme", rule, name, "the other schemes need no model")
    settings = settings_of(options)
    terms = TERMS[name](settings.scheme)
    if options.out.exists():
        raise SettingError(
            "--out", "must be a new file", str(options.out), "a model is never changed; choose another name"
        )
    inputs = check_inputs(options.files)
    line = ProgressLine(sys.stderr, total_bytes(inputs))
    with contextlib.closing(line):
        content = build_model(inputs, settings, terms, line.update)
    write_whole(options.out, content)
    return str(name)


def _counts(model: "IdfModel | ConceptModel") -> str:
    return f"{len(model.terms):,} terms on {model.pages:,} pages"
