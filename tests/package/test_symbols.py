# SPDX-License-Identifier: MIT
"""The shared library exports what the public headers declare, all of it, and nothing else. Its SONAME is that of
docs/compatibility.md.

usage: test_symbols.py libgpureplay.so
"""

import re
import subprocess
import sys
from pathlib import Path

HEADERS = Path(__file__).resolve().parents[2] / "include/gpureplay"


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def declared():
    text = "".join(header.read_text(encoding="utf-8") for header in HEADERS.glob("*.h"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return set(re.findall(r"GPUR_API[^;(]*?\b(gpur_\w+)\(", text))


def exported(library):
    """Global symbols the library defines, without the version nodes and marks that the linker itself puts there."""
    symbols = (line.split() for line in run("nm", "-D", "--defined-only", library).splitlines())
    return {symbol[-1] for symbol in symbols if symbol[-1] not in ("_init", "_fini")}


def promised_soname():
    major, minor = (re.search(rf"GPUR_VERSION_{part} (\d+)", (HEADERS / "status.h").read_text(encoding="utf-8"))[1]
                    for part in ("MAJOR", "MINOR"))
    return f"libgpureplay.so.{major}.{minor}" if major == "0" else f"libgpureplay.so.{major}"


def main():
    library = sys.argv[1]
    wanted, found = declared(), exported(library)
    assert len(wanted) > 40, f"only {len(wanted)} declarations were found"
    assert found == wanted, f"declared and not exported, or exported and not declared: {sorted(found ^ wanted)}"
    soname = re.findall(r"\(SONAME\).*\[(.*)\]", run("readelf", "-d", library))
    assert soname == [promised_soname()], soname
    print(f"test_symbols: {len(found)} symbols, all declared; {soname[0]}")


main()
