# SPDX-License-Identifier: MIT
"""Sphinx's settings for the reference: see build.sh."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from docutils import nodes  # noqa: E402

import pages  # noqa: E402
import plain  # noqa: E402

project = "libgpureplay"
author = copyright = "the authors of libgpureplay"
version = release = ".".join(re.findall(r"#define GPUR_VERSION_\w+ (\d+)",
                                        (pages.ROOT / "include/gpureplay/status.h").read_text(encoding="utf-8")))
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "sphinx_rtd_theme"
html_title = f"libgpureplay {release}"
smartquotes = False  # they make other characters of "cpu" and --num-envs
html_show_sourcelink = html_copy_source = html_show_search_summary = False
html_static_path = ["."]
html_css_files = ["reference.css"]
add_function_parentheses = toc_object_entries = False
myst_heading_anchors = 4
autodoc_mock_imports = pages.NOT_NEEDED
autodoc_typehints_format = "short"
c_maximum_signature_line_length = python_maximum_signature_line_length = 100
nitpicky = True
suppress_warnings = ["ref.python"]  # of types such as bytes, which has the name of members of tuples
# Types of the C library and of other programs, and types in annotations that are no names of the package.
nitpick_ignore_regex = [("c:identifier", "u?int[0-9]+_t|size_t"), ("py:class", ".*")]


def docstring(app, what, name, obj, options, lines):
    """Docstrings are plain text; a call follows that of a function."""
    owner, _, member = name.removeprefix(f"{pages.module_of(name)}.").rpartition(".")
    written = plain.restructured("\n".join(lines), lambda word: written_pages.link(word, owner or member))
    if what in ("method", "function") and not member.startswith("_"):
        written += written_pages.example_in_python(name)
    elif what in ("class", "exception"):
        written += written_pages.example_of_class(name, member, obj)
    lines[:] = written


def name_lines(app, tree):
    """So that lines of sources can be linked."""
    for block in tree.findall(nodes.literal_block):
        if block.get("linenos"):
            block.setdefault("highlight_args", {})["lineanchors"] = "line"


def setup(app):
    app.connect("doctree-read", name_lines)
    app.connect("autodoc-process-docstring", docstring)


written_pages = pages.Pages(".")
