# SPDX-License-Identifier: MIT
"""What the benchmarks share: --help, options that are refused, Ctrl-C. argv: the programs.

bench_training has a test of its own, beside which only its help is looked at here."""

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = sys.argv[1:]


def expect(holds, result):
    assert holds, f"{result.args}: status {result.returncode}\n{result.stdout}\n{result.stderr}"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def helps_name_every_option(program):
    for word in ("--help", "-h"):
        result = run(program, word)
        expect(result.returncode == 0 and not result.stderr, result)
        for option in ("--device NAME", "--json FILE", "--quick", "--help", "Ctrl-C"):
            expect(option in result.stdout, result)


def wrong_options_are_refused_with_what_is_wanted(program):
    for options, words in (
        (("--rounds", "5"), ('--rounds is "5"', "a whole number from 6 to 512")),
        (("--rounds", "513"), ('--rounds is "513"',)),
        (("--rounds", "7x"), ('--rounds is "7x"',)),
        (("--rounds",), ('"--rounds"', "no value")),
        (("--sede", "3"), ('"--sede" is no option', "--rounds N")),
    ):
        result = run(program, *options)
        expect(result.returncode == 2 and all(word in result.stderr for word in words), result)


def ctrl_c_keeps_the_finished_cases(program, first):
    """`first`: how the line of the first case begins, after which others follow for seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        with subprocess.Popen([program, "--json", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
            for line in process.stdout:
                if line.startswith(first):
                    process.send_signal(signal.SIGINT)
                    break
            said = process.communicate(timeout=60)
        report = json.loads(path.read_text())
        assert process.returncode == 130, (process.returncode, said)
        assert report["interrupted"] == 1 and report["cases"][0]["name"].startswith(first), report
        count = len(report["cases"])
        assert count and said[1].startswith(f"interrupted: {count} case") and str(path) in said[1], said


def default_threads_are_compared_with_one_beside_busy_processes(program):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [program, "--quick", "--rounds", "6", "--json", str(path)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
        rows = [line.split("|") for line in result.stdout.splitlines() if line.startswith("| ")][1:]
        expect(result.returncode == 0 and len(rows) == 8 and {row[2].strip() for row in rows} == {"0", "1"}, result)
        expect(all(float(row[5]) > 0 and int(row[8]) == 300 for row in rows), result)
        cases = json.loads(path.read_text())["cases"]
        expect([len(case["ours_seconds"]) for case in cases] == [6] * 8, result)


def busy_processes_end_with_the_program(program):
    """However it ends: they have its output open, so that the reader would wait for them."""
    with subprocess.Popen([program, "--quick"], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("| append"):
                process.kill()
                break
        process.communicate(timeout=60)


def main():
    for program in PROGRAMS:
        helps_name_every_option(program)
        if Path(program).name != "bench_training":
            wrong_options_are_refused_with_what_is_wanted(program)
        first = {"bench_append": "append ", "bench_contest": "ceiling: "}.get(Path(program).name)
        if Path(program).name == "bench_busy":
            default_threads_are_compared_with_one_beside_busy_processes(program)
            busy_processes_end_with_the_program(program)
        if first:
            ctrl_c_keeps_the_finished_cases(program, first)
    assert len(PROGRAMS) > 2
    print(f"test_bench: {len(PROGRAMS)} programs")


main()
