# SPDX-License-Identifier: MIT
"""usage: test_cuda_philox.py KERNELS SCRATCH CURAND_INCLUDE_DIR NVCC ARGUMENT...

Checks that the CUDA kernels take their random numbers from the toolkit's own Philox. Compiles kernels/cuda.cu to PTX as
the build compiles it, with source lines, and finds the source of the multiplications by Philox's constants: all must
come from curand's header, except those of permutation.h, which mixes keys with the same constants. Needs no GPU."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

# Philox 4x32's multipliers [Salmon et al. 2011, table 2], as PTX may write them.
MULTIPLIERS = {str(sign) for m in (0xD2511F53, 0xCD9E8D57) for sign in (m, m - 2**32)}
HEADER = "curand_philox4x32_x.h"
DRAWING = {"gather", "priority_draw", "explore"}  # kernels that must use random numbers
LEAST = 18  # of the 20 multiplications of ten rounds; the compiler may fold some of the first


def ptx_of(kernels, scratch, command):
    """Compiles to PTX, which is for a single architecture: the first of those the build compiles for."""
    architecture = re.search(r"compute_(\d+[a-z]?)", " ".join(command))
    assert architecture, f"no compute_NN is in {' '.join(command)}"
    gencode = [i for i, word in enumerate(command) if word == "-gencode"]
    dropped = {*gencode, *(i + 1 for i in gencode)}
    words = [word for i, word in enumerate(command) if i not in dropped and not word.startswith("-gencode=")]
    out = Path(scratch)
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*words, f"-arch=compute_{architecture[1]}", "-ptx", f"{kernels}/cuda.cu", "-o", str(out)],
                   check=True)
    text = out.read_text(encoding="utf-8", errors="replace")
    out.unlink()
    return text


def products(text):
    """Counts, for each kernel and source file, the instructions with one of the constants. Instructions that the
    compiler has moved out of a loop have line 0, which belongs to no file; most of a Philox keeps its lines."""
    files = {number: Path(name) for number, name in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, flags=re.M)}
    found, kernel, here = {}, None, None
    for line in text.splitlines():
        entry = re.search(r"\.entry gpur_(\w+)_cuda_entry", line)
        place = re.match(r"\s*\.loc\s+(\d+)\s+(\d+)", line)
        if entry:
            kernel = entry[1]
            found[kernel] = Counter()
        elif place:
            here = files[place[1]] if place[2] != "0" else None
        elif MULTIPLIERS & set(re.findall(r"-?\d+", line)) or re.search(r"0[xX](D2511F53|CD9E8D57)", line, re.I):
            assert kernel, f"outside all kernels: {line.strip()}"
            found[kernel][here] += here is not None
    return files, {kernel: +counts for kernel, counts in found.items()}


def check(kernels, curand, files, found):
    toolkits = [path for path in files.values() if path.name.startswith("curand")]
    assert [path.name for path in toolkits] == [HEADER], f"of curand: {toolkits}; wanted {HEADER} alone"
    assert toolkits[0].resolve() == (Path(curand) / HEADER).resolve(), f"{toolkits[0]}; wanted the one in {curand}"
    allowed = {toolkits[0], Path(kernels) / "lib/permutation.h"}
    for kernel, counts in found.items():
        others = {str(path): count for path, count in counts.items() if path not in allowed}
        assert not others, f"kernel {kernel} has a Philox that is not the toolkit's: {others}"
        if counts:
            assert counts[toolkits[0]] >= LEAST, f"kernel {kernel} has {counts}; wanted {LEAST} of {HEADER}"
    drawing = {kernel for kernel, counts in found.items() if counts}
    assert drawing >= DRAWING, f"only {sorted(drawing)} have a Philox; wanted {sorted(DRAWING)} among them"
    return drawing


def main():
    kernels, scratch, curand, *command = sys.argv[1:]
    files, found = products(ptx_of(kernels, scratch, command))
    drawing = check(kernels, curand, files, found)
    print(f"test_cuda_philox: {len(found)} kernels; {', '.join(sorted(drawing))} draw, by {HEADER} of {curand}")


main()
