"""Writes the types of the library's keyword settings from the models: `python -m bench.deploy.keywords`."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr

from spotsieve.stream.base.settings.load import FILE
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import SCHEME_SETTINGS
from spotsieve.stream.base.settings.section import leaf_settings, sections_of, tables_of

ROOT = Path(__file__).resolve().parents[2]
FILE_OF_KEYWORDS = ROOT / "stream" / "local" / "library" / "keywords.py"
HEAD = '''"""The types of the keyword settings of Deduplicator. Written by bench/deploy/keywords.py."""

import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict
'''


def keywords_module() -> str:
    """The source of the module, formatted by ruff."""
    lines = [
        HEAD,
        f"SchemeName = Literal[{', '.join(map(repr, SCHEME_SETTINGS))}]",
        '"""The names of the schemes."""',
        "",
    ]
    lines += ["class SettingKeywords(TypedDict, total=False):"]
    lines += [
        '    """Every setting, with two underscores below each section; a section takes a mapping."""',
        "",
    ]
    lines += [f"    {name}: {kind}" for name, kind in sorted(_keywords().items())]
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE_OF_KEYWORDS), "-"]
    return subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True, cwd=ROOT).stdout


def _keywords() -> dict[str, str]:
    kinds = dict[str, set[str]]()
    for path, field in leaf_settings(Settings):
        name = "__".join(path)
        if path != ("scheme", "name"):  # The parameter `scheme` gives it.
            kinds.setdefault(name, set()).add(_type_of(field.annotation, bool(tables_of(field.annotation))))
        if field.annotation is SecretStr:
            kinds[name + FILE] = {"str"}
    kinds |= {name: {"Mapping[str, object]"} for name in _sections(Settings)}
    return {name: " | ".join(sorted(found)) for name, found in kinds.items()}


def _sections(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """The keywords of sections, but [scheme], whose name is a parameter of its own."""
    for name, field in model.model_fields.items():
        for section in sections_of(field.annotation)[:1]:
            if name != "scheme":
                yield above + name
                yield from _sections(section, f"{above}{name}__")


def _type_of(annotation: Any, of_tables: bool = False) -> str:
    """The type of a setting as Python, as pydantic accepts it."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if of_tables:
        return "Sequence[Mapping[str, object]]"
    if origin is Annotated:
        return _type_of(inside[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, inside))}]"
    if origin is tuple:
        return f"Sequence[{_type_of(inside[0])}]"
    if origin in (Union, UnionType):
        return " | ".join(map(_type_of, inside))
    if annotation is Path:
        return "str | os.PathLike[str]"
    if annotation is type(None):
        return "None"
    return "str" if annotation is SecretStr else str(annotation.__name__)


if __name__ == "__main__":
    FILE_OF_KEYWORDS.write_text(keywords_module(), "utf-8")
