"""Sphinx builds the documentation site from this folder: `make docs`."""

import re
import sys
from pathlib import Path
from typing import Any

# autodoc imports the library: the project's folder is the package `spotsieve`, which `make setup` has installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

project = "Spotsieve"
copyright = "Spotsieve developers"  # noqa: A001  (Sphinx reads this name)
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
myst_heading_anchors = 3
exclude_patterns = ["measured/quality", "measured/schemes"]
html_theme = "furo"
html_title = "Spotsieve"
html_copy_source = False
html_show_sphinx = False
# The index of names lists those of api.html alone, in a table that no telephone shows whole.
html_use_index = False
copybutton_prompt_text = "$ "
autodoc_typehints = "description"
autodoc_member_order = "bysource"
# The words of the state's grammar are no code of a language.
highlight_language = "none"


def lay_out_docstring(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Lay out our docstrings, plain text, as reStructuredText: arguments as a list, indented lines as code."""
    laid_out, listed = list[str](), False
    for line in lines:
        text = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line)
        if re.match(r"\w+(, \w+)*: ", text):
            laid_out += ["", f"- {text}"]
            listed = True
        elif not text.strip():
            laid_out.append("")
            listed = False
        elif text.startswith(" ") and laid_out and not laid_out[-1].strip():
            laid_out += ["::", "", text]
        else:
            laid_out.append(f"  {text}" if listed else text)
    lines[:] = laid_out


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", lay_out_docstring)
