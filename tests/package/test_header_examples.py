# SPDX-License-Identifier: MIT
"""The code in comments of public headers compiles, each block alone after header_examples.h, which declares what a
program has by then.

usage: test_header_examples.py COMPILER
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True  # beside the sources
sys.path.insert(0, str(ROOT / "docs/reference"))
import calls  # noqa: E402

FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-unused-parameter", "-fsyntax-only"]


def program_of(block):
    """A block that defines functions or includes headers is a file's, any other one a function's."""
    is_file = re.search(r"^(\{|#include)", block, re.M)
    body = block if is_file else f"void example(void)\n{{\n{block}\n}}"
    return f'#include "header_examples.h"\n#line 1 "comment"\n{body}\n'


def main():
    examples = [*calls.comments()]
    assert len(examples) > 50, f"{len(examples)} blocks were found; the headers have more"
    refused = 0
    for example in examples:
        done = subprocess.run([sys.argv[1], *FLAGS, f"-I{ROOT / 'include'}", f"-I{ROOT / 'tests/package'}", "-x", "c",
                               "-"], input=program_of(example.text), capture_output=True, text=True, check=False)
        if done.returncode:
            refused += 1
            print(f"the code in the comment of {example.file}:\n{example.text}\n{done.stderr}")
    print(f"test_header_examples: {len(examples) - refused} of {len(examples)} blocks compile")
    return refused > 0


sys.exit(main())
