# SPDX-License-Identifier: MIT
"""What all scripts share: help, options, the generator, builds that fail, folders that are named; and their packages.

Each runs on a machine that is made up (machine.py)."""

import re

from machine import ROOT, Machine, expect, run_tests

# A script that builds, and the options with which it does little else.
BUILDERS = {
    "tests/run.sh": ("--no-install", "--quick"),
    "bench/run.sh": (),
    "bench/learning.sh": ("--seeds", "1"),
    "bench/gpu_suite.sh": ("--dry-run",),
    "examples/quickstart.sh": ("--no-install",),
}
SCRIPTS = [*BUILDERS, "bench/peers/setup.sh"]


def named_options(printed):
    """(option, whether it takes a value) of each in a help."""
    return [(name, bool(value)) for name, value in re.findall(r"^ +(--[a-z-]+) ?([A-Z]*)", printed, flags=re.M)]


def helps_are_whole():
    for script in SCRIPTS:
        with Machine(script) as machine:
            status, printed = machine.run("--help")
            lines = printed.splitlines()
            expect(status == 0 and lines[0].startswith(f"usage: bash {script} ["), machine, printed)
            expect(lines[1] == "" and re.match("[A-Z]", lines[2]) and lines[-1].endswith("."), machine, printed)
            expect(("--help", False) in named_options(printed), machine, printed)
            expect("shellcheck" not in printed and "#" not in printed, machine, printed)


def every_option_of_the_code_is_in_the_help():
    for script in SCRIPTS:
        text = (ROOT / script).read_text()
        labels = re.findall(r"^ +(-[^)\n]*)\)(?: |$)", text, flags=re.M)
        taken = set(re.findall(r"--[a-z-]+", " ".join(labels)))
        with Machine(script) as machine:
            status, printed = machine.run("--help")
            expect(taken == {name for name, _ in named_options(printed)}, machine, printed)


def an_unknown_option_is_refused_by_its_name():
    for script in SCRIPTS:
        with Machine(script) as machine:
            options = named_options(machine.run("--help")[1])
            status, printed = machine.run("--sedes", "3")
            expect(status == 2 and f'{script}: unknown option "--sedes"' in printed, machine, printed)
            expect(all(name in printed for name, _ in options) and "--help tells" in printed, machine, printed)
            expect(not machine.log.read_text(), machine, printed)


def an_option_is_no_other_options_value():
    for script in SCRIPTS:
        with Machine(script) as machine:
            valued = [name for name, value in named_options(machine.run("--help")[1]) if value]
            expect(valued, machine, "no option takes a value")
            for name in valued:
                status, printed = machine.run(name)
                expect(status == 2 and f"{name} has no value; it must be " in printed, machine, printed)
                for given in ("--help", "-3", ""):
                    status, printed = machine.run(name, given)
                    expect(status == 2 and f'{name} is "{given}"; it must be ' in printed, machine, printed)
            expect(not machine.log.read_text(), machine, printed)


def a_folder_keeps_its_generator():
    """Ninja is taken where it is there, and only for folders that have nothing yet."""
    for script, options in BUILDERS.items():
        with Machine(script) as machine:
            ninja = machine.bin / "ninja"
            machine.run(*options)
            ninja.rename(machine.bin / "make")
            machine.run(*options)
            said = machine.calls("cmake -S")
            expect(["-G Ninja" in call for call in said] == [True, False], machine, "")
        with Machine(script, without=("ninja",)) as machine:
            machine.add(machine.bin / "make", "")
            machine.run(*options)
            machine.add(machine.bin / "ninja", "")
            status, printed = machine.run(*options)
            expect(not any("-G" in call for call in machine.calls("cmake -S")), machine, printed)
            expect(len(machine.calls("cmake --build")) == 2 and "does not match" not in printed, machine, printed)


def a_folder_that_was_never_configured_begins_anew():
    for script, options in BUILDERS.items():
        with Machine(script, without=("ninja",), configure=1) as machine:
            machine.add(machine.bin / "make", "")
            machine.run(*options)
            expect(not machine.calls("cmake --build"), machine, "")
            machine.add(machine.bin / "ninja", "")
            machine.environment["FAKE_CONFIGURE"] = "0"
            status, printed = machine.run(*options)
            expect("-G Ninja" in machine.calls("cmake -S")[-1], machine, printed)
            expect(len(machine.calls("cmake --build")) == 1, machine, printed)


def a_build_that_fails_is_shown():
    for script in ("bench/run.sh", "bench/learning.sh"):
        for step in ("configure", "build"):
            with Machine(script, **{step: 1}) as machine:
                status, printed = machine.run()
                log = re.search(rf"{script}: the build failed; the whole of it is in (\S+)", printed)
                expect(status == 2 and "a word on what is wrong" in printed and log, machine, printed)
                expect("a word on what is wrong" in (machine.root / log.group(1)).read_text(), machine, printed)
                expect(not machine.calls("bench_fake") and not machine.calls("cartpole_dqn"), machine, printed)


def the_test_command_shows_a_build_that_fails():
    for step in ("configure", "build"):
        with Machine("tests/run.sh", **{step: 1}) as machine:
            status, printed = machine.run("--no-install", "--quick")
            expect(status == 1 and "ing failed" in printed and "RED" in printed, machine, printed)
            expect(not machine.calls("ctest"), machine, printed)


def a_folder_is_the_callers():
    """--out of the benchmarks; --out and --built of the GPU suite. Both print what they write."""
    with Machine("bench/run.sh") as machine:
        status, printed = machine.run("--out", "given", folder=machine.bin)
        given = machine.bin / "given"
        expect(status == 0 and given.is_dir() and f"Samples: {given}" in printed, machine, printed)
        expect(f"--json {given}/bench_fake.json" in machine.calls("bench_fake")[0], machine, printed)
        status, printed = machine.run("--out", "given")
        expect(status == 0 and "Samples: given" in printed, machine, printed)
    with Machine("bench/gpu_suite.sh") as machine:
        machine.add(machine.bin / "made/tests/test_cross", '#!/bin/bash\necho "crossed $*"\n')
        status, printed = machine.run("--dry-run", "--built", "made", "--out", "given", folder=machine.bin)
        expect("crossed cpu" in printed and not machine.calls("cmake -S"), machine, printed)
        expect((machine.bin / "given/report.json").exists(), machine, printed)


def tests_need_ninja_or_make():
    with Machine("tests/run.sh", without=("ninja",)) as machine:
        status, printed = machine.run("--quick")
        expect(status == 1 and "cannot go on without ninja-build" in printed, machine, printed)
        expect(not machine.calls("cmake -S"), machine, printed)
        machine.add(machine.bin / "make", "")
        status, printed = machine.run("--quick")
        expect("ninja-build" not in printed and machine.calls("cmake -S"), machine, printed)


def the_automatic_tests_install_what_the_test_command_would():
    lists = re.findall(r"_packages=\((.*?)\)", (ROOT / "tests/packages.sh").read_text(), flags=re.S)
    packages = [entry.split(":")[0] for entry in " ".join(lists).split()]
    job = (ROOT / ".github/workflows/ci.yml").read_text().split("  bare-machine:")[0]
    missing = [package for package in packages if not re.search(rf"(?<![\w-]){re.escape(package)}(?![\w-])", job)]
    assert len(packages) > 8 and not missing, f"{missing} of {packages}"


run_tests([
    helps_are_whole,
    every_option_of_the_code_is_in_the_help,
    an_unknown_option_is_refused_by_its_name,
    an_option_is_no_other_options_value,
    a_folder_keeps_its_generator,
    a_folder_that_was_never_configured_begins_anew,
    a_build_that_fails_is_shown,
    the_test_command_shows_a_build_that_fails,
    a_folder_is_the_callers,
    tests_need_ninja_or_make,
    the_automatic_tests_install_what_the_test_command_would,
])
