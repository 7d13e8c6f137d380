# SPDX-License-Identifier: MIT
"""examples/quickstart.sh on machines that are made up: what it installs, asks, names and refuses."""

import os
import re
import signal
import subprocess
import time

from machine import ROOT, Machine, expect, run_tests

EXAMPLES = ROOT / "examples"


def machine_with(**settings):
    return Machine("examples/quickstart.sh", **settings)


def nothing_missing_needs_no_root():
    with machine_with() as machine:
        (machine.bin / "sudo").unlink()
        status, printed = machine.run("--no-install", "--seed", "3")
        expect(status == 0 and not machine.calls("apt-get"), machine, printed)
        expect(machine.calls("cartpole_dqn") == ["cartpole_dqn --out runs/cartpole --seed 3"], machine, printed)
        expect("runs/cartpole/curve.png" in printed, machine, printed)
        expect((machine.root / "runs/cartpole/curve.png").exists(), machine, printed)
        expect("\x1b" not in printed, machine, printed)


def called_from_elsewhere_it_names_paths_that_hold_there():
    with machine_with() as machine:
        default, given = machine.root / "runs/cartpole", machine.bin / "given"
        status, printed = machine.run("--no-install", folder=machine.bin)
        expect(status == 0 and f"{default}/curve.png" in printed, machine, printed)
        status, printed = machine.run("--no-install", "--out", "given", folder=machine.bin)
        expect(status == 0 and f"{given}/curve.png" in printed and given.is_dir(), machine, printed)


def without_root_and_terminal_it_names_what_to_install():
    with machine_with(without=("cmake",)) as machine:
        status, printed = machine.run()
        expect(status == 2 and "apt-get install" in printed and "cmake" in printed, machine, printed)
        expect(not machine.calls("apt-get") and not machine.calls("sudo"), machine, printed)


def root_without_a_terminal_installs_and_says_so():
    with machine_with(uid=0, without=("cmake", "sudo")) as machine:
        status, printed = machine.run()
        expect(status == 0 and "Installing cmake" in printed, machine, printed)
        expect(any("cmake" in call for call in machine.calls("apt-get")), machine, printed)


def no_install_binds_root_too():
    with machine_with(uid=0, without=("cmake",)) as machine:
        status, printed = machine.run("--no-install")
        expect(status == 2 and not machine.calls("apt-get"), machine, printed)


def yes_uses_sudo_without_asking():
    with machine_with(without=("cmake",)) as machine:
        status, printed = machine.run("--yes")
        expect(status == 0 and machine.calls("sudo") and machine.calls("apt-get"), machine, printed)


def a_terminal_is_asked_and_a_no_is_kept():
    with machine_with(without=("cmake",)) as machine:
        status, printed = machine.run_on_terminal(b"n\n")
        expect(status == 2 and "[Y/n]" in printed, machine, printed)
        expect(not machine.calls("apt-get") and not machine.calls("sudo"), machine, printed)


def a_terminal_is_asked_and_a_yes_installs():
    with machine_with(without=("cmake",)) as machine:
        status, printed = machine.run_on_terminal(b"\n")
        expect(status == 0 and machine.calls("sudo") and "\x1b[1m" in printed, machine, printed)


def a_picture_is_not_worth_failing_for():
    for settings in ({"uid": 1000}, {"uid": 0, "apt": 1}):
        with machine_with(without=("matplotlib",), **settings) as machine:
            status, printed = machine.run()
            expect(status == 0 and "no picture" in printed, machine, printed)


def a_failed_installation_of_what_is_needed_ends_it():
    with machine_with(uid=0, without=("cmake",), apt=1) as machine:
        status, printed = machine.run()
        expect(status == 2 and "Cannot build without" in printed, machine, printed)


def a_failed_build_ends_it_with_its_log():
    for step in ("configure", "build"):
        with machine_with(**{step: 1}) as machine:
            status, printed = machine.run("--no-install")
            expect(status == 2 and "build/quickstart/log" in printed and "a word on" in printed, machine, printed)
            expect(not machine.calls("cartpole_dqn"), machine, printed)


def a_bad_option_is_refused_before_anything_is_installed_or_built():
    for options, word in ((("--sede", "3"), "--sede"), (("--seed",), "--seed"), (("--steps=1e5",), "1e5"),
                          (("--envs", "two"), "two"), (("--out=",), "--out"), (("--device", ""), "--device"),
                          (("--seed", "3", "cpu"), "cpu"), (("--out", "--seed"), "--seed")):
        with machine_with(uid=0, without=("ninja",)) as machine:
            status, printed = machine.run("--yes", *options)
            expect(status == 2 and word in printed and "--help" in printed, machine, printed)
            expect(not machine.log.read_text(), machine, printed)


def every_training_option_is_in_the_help_and_reaches_the_program():
    names = re.findall(r'^    \{"(\w+)", "\w+",', (EXAMPLES / "options.c").read_text(), flags=re.M)
    assert len(names) == 7, names
    with machine_with() as machine:
        status, printed = machine.run("--help")
        expect(status == 0 and all(f"--{name} " in printed for name in names), machine, printed)
        given = [word for name in names if name not in ("out", "resume")
                 for word in (f"--{name}", "7")]
        given += ["--resume", "earlier"]
        status, printed = machine.run("--no-install", "--out", "there", *given)
        expect(machine.calls("cartpole_dqn") == [" ".join(["cartpole_dqn --out there", *given])], machine, printed)


def an_unsolved_run_keeps_its_status_and_its_picture():
    with machine_with(end=1) as machine:
        status, printed = machine.run("--no-install", "--out=elsewhere")
        expect(status == 1 and (machine.root / "elsewhere/curve.png").exists(), machine, printed)


def a_refused_run_has_no_picture():
    with machine_with(end=2) as machine:
        status, printed = machine.run("--no-install")
        expect(status == 2 and not machine.calls("python3") and "picture" not in printed, machine, printed)


def ctrl_c_still_draws_the_picture():
    """A terminal sends Ctrl-C to the script and the program alike."""
    with machine_with(end="wait") as machine:
        with subprocess.Popen(
            machine.command(["--no-install"]), env=machine.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, cwd=machine.root,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # it may be ignored where tests are run
        ) as script:
            deadline = time.monotonic() + 20
            while not (machine.root / "runs/cartpole/waiting").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            os.killpg(script.pid, signal.SIGINT)
            printed, _ = script.communicate(timeout=60)
        expect(script.returncode == 130, machine, printed)
        expect((machine.root / "runs/cartpole/curve.png").exists(), machine, printed)


run_tests([
    nothing_missing_needs_no_root,
    called_from_elsewhere_it_names_paths_that_hold_there,
    without_root_and_terminal_it_names_what_to_install,
    root_without_a_terminal_installs_and_says_so,
    no_install_binds_root_too,
    yes_uses_sudo_without_asking,
    a_terminal_is_asked_and_a_no_is_kept,
    a_terminal_is_asked_and_a_yes_installs,
    a_picture_is_not_worth_failing_for,
    a_failed_installation_of_what_is_needed_ends_it,
    a_failed_build_ends_it_with_its_log,
    a_bad_option_is_refused_before_anything_is_installed_or_built,
    every_training_option_is_in_the_help_and_reaches_the_program,
    an_unsolved_run_keeps_its_status_and_its_picture,
    a_refused_run_has_no_picture,
    ctrl_c_still_draws_the_picture,
])
