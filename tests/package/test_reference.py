# SPDX-License-Identifier: MIT
"""The reference: it is built without a warning, no link in it is dead, every function of the headers and every name of
the package has a page with an example, and its search, which works without a server, knows functions of C and methods
of Python.

usage: test_reference.py libgpureplay.so
"""

import html
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True  # beside the sources
sys.path.insert(0, str(ROOT / "docs/reference"))
headers = importlib.import_module("headers")
NEEDED = ("gymnasium", "jax", "myst_parser", "numpy", "sphinx", "sphinx_rtd_theme")


def no_link_is_dead(folder):
    pages = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}
    ids = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    count = 0
    for path, text in pages.items():
        for link in re.findall(r'\b(?:href|src)="([^"]*)"', text):
            to = urllib.parse.urlsplit(link.replace("&amp;", "&"))
            if to.scheme or to.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(to.path)).resolve() if to.path else path
            where = f"{path.relative_to(folder)}: {link}"
            assert target.is_file(), f"{where} names no file"
            assert not to.fragment or target.suffix != ".html" or urllib.parse.unquote(to.fragment) in ids[target], \
                f"{where} names no place"
            count += 1
    return len(pages), count


def code_of(page):
    """The text of its blocks of code."""
    blocks = re.findall(r'<div class="highlight-.*?<pre>(.*?)</pre>', page, re.S)
    return "\n".join(html.unescape(re.sub(r"<[^>]+>", "", block)) for block in blocks)


def functions_have_examples(folder):
    for one in headers.declarations():
        if one.kind in ("function", "plug-in"):
            page = (folder / f"c/{one.name}.html").read_text(encoding="utf-8")
            assert one.comment, f"{one.name} has no comment"
            assert re.search(rf"\b{one.name}\(", code_of(page)), f"no example on the page of {one.name} calls it"


def names_have_examples(folder):
    """A tuple that functions return has links to these, which have examples."""
    for path in sorted(folder.glob("python/*/*.html")):
        page = path.read_text(encoding="utf-8")
        assert code_of(page) or "Given by" in page, f"{path.relative_to(folder)} has no example"


def search_knows(folder, owner, name):
    """The index is a script, which a page from a file may load, as it may load no other data."""
    assert 'loadIndex("searchindex.js")' in (folder / "search.html").read_text(encoding="utf-8")
    text = (folder / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(re.fullmatch(r"Search\.setIndex\((.*)\)", text, re.S)[1])
    assert name in {entry[4] for entry in index["objects"][owner]}, f"the search does not know {owner}.{name}"


def main():
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {', '.join(missing)}; tests/run.sh --all makes an environment with it")
        return 77
    if not Path(sys.argv[1]).with_name("libgpureplay_jax.so").is_file():
        print("skipped: the library was built without JAX")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["bash", str(ROOT / "docs/reference/build.sh"), "--library", sys.argv[1], "--python",
                               sys.executable, "--out", folder], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        built = Path(folder, "html")
        pages, links = no_link_is_dead(built)
        functions_have_examples(built)
        names_have_examples(built)
        search_knows(built, "", "gpur_writer_step")
        search_knows(built, "gpureplay.ReplayBuffer", "sample")
    print(f"test_reference: {links} links of {pages} pages have targets")
    return 0


sys.exit(main())
