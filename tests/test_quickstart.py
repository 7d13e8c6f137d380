# SPDX-License-Identifier: MIT
"""examples/quickstart.sh on machines that are made up: what it installs, asks, names and refuses.

A copy of the script runs with a PATH of its own, where the compiler, the package manager and sudo are stand-ins that
write down how they were called. "Installing" a package there makes its stand-in appear."""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
TOOLS = "bash cat chmod dirname env ls mkdir mktemp nproc rm sleep tail tee touch".split()

# cmake --build makes the training program, which writes a curve and ends as FAKE_END says, or at Ctrl-C.
CMAKE = """#!/bin/bash
echo "cmake $*" >>"$FAKE_LOG"
[ "$1" = --build ] || exit "${FAKE_CONFIGURE:-0}"
echo "[1/2] Building"
mkdir -p "$2/examples"
cat >"$2/examples/cartpole_dqn" <<'PROGRAM'
#!/bin/bash
echo "cartpole_dqn $*" >>"$FAKE_LOG"
mkdir -p "$2"
touch "$2/curve.csv"
trap 'exit 130' INT
if [ "${FAKE_END:-0}" = wait ]; then
    touch "$2/waiting"
    for _ in {1..100}; do sleep 0.1; done
fi
exit "${FAKE_END:-0}"
PROGRAM
chmod +x "$2/examples/cartpole_dqn"
"""
LOGGED = '#!/bin/bash\necho "{name} $*" >>"$FAKE_LOG"\n'
APT = LOGGED.format(name="apt-get") + """[ "${FAKE_APT:-0}" = 0 ] || exit 1
[ "$1" = install ] || exit 0
for package in "$@"; do
    case $package in
    cmake) ln_to=cmake ;;
    ninja-build) ln_to=ninja ;;
    python3-matplotlib) ln_to=matplotlib ;;
    *) continue ;;
    esac
    [ -e "$FAKE_BIN/$ln_to.off" ] && cat "$FAKE_BIN/$ln_to.off" >"$FAKE_BIN/$ln_to" && chmod +x "$FAKE_BIN/$ln_to"
done
exit 0
"""
PYTHON = """#!/bin/bash
[ "$1" = -c ] && { [ -e "$FAKE_BIN/matplotlib" ]; exit; }
echo "python3 $*" >>"$FAKE_LOG"
touch "$3"
"""


class Machine:
    """A folder with examples/quickstart.sh, and a bin/ that is all of PATH."""

    def __init__(self, uid=1000, without=(), **settings):
        self.root = Path(tempfile.mkdtemp())
        self.bin, self.log = self.root / "bin", self.root / "log"
        (self.root / "examples").mkdir()
        self.bin.mkdir()
        self.log.touch()
        # Debian's own Python, which the script would find by its path, is the real machine's: leave it out.
        script = (EXAMPLES / "quickstart.sh").read_text().replace("/usr/bin/python3", "no-such-python")
        (self.root / "examples/quickstart.sh").write_text(script)
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        stubs = {
            "cmake": CMAKE, "apt-get": APT, "python3": PYTHON, "matplotlib": "", "cc": "", "ninja": "",
            "sudo": LOGGED.format(name="sudo") + 'exec "$@"\n', "id": "#!/bin/bash\necho $FAKE_UID\n",
        }
        for name, text in stubs.items():
            stub = self.bin / (name + ".off" if name in without else name)
            stub.write_text(text)
            stub.chmod(0o755)
        self.environment = {
            "PATH": str(self.bin), "FAKE_BIN": str(self.bin), "FAKE_LOG": str(self.log), "FAKE_UID": str(uid),
            "TMPDIR": str(self.root), "HOME": str(self.root),
            **{"FAKE_" + name.upper(): str(value) for name, value in settings.items()},
        }

    def command(self, options):
        return [str(self.bin / "bash"), str(self.root / "examples/quickstart.sh"), *options]

    def run(self, *options, folder=None):
        """Without a terminal. Returns (status, all it printed)."""
        result = subprocess.run(
            self.command(options), env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=60, check=False, cwd=folder or self.root,
        )
        return result.returncode, result.stdout

    def run_on_terminal(self, answer, *options):
        master, terminal = pty.openpty()
        with subprocess.Popen(
            self.command(options), env=self.environment, stdin=terminal, stdout=terminal, stderr=terminal,
            cwd=self.root,
        ) as program:
            os.close(terminal)
            os.write(master, answer)
            shown = b""
            while True:
                try:
                    shown += os.read(master, 4096)
                except OSError:  # the other end is closed
                    break
            status = program.wait(timeout=60)
        os.close(master)
        return status, shown.decode()

    def calls(self, name):
        return [line for line in self.log.read_text().splitlines() if line.startswith(name + " ")]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.root)


def expect(holds, machine, printed):
    assert holds, f"printed:\n{printed}\ncalled:\n{machine.log.read_text()}"


def nothing_missing_needs_no_root():
    with Machine() as machine:
        (machine.bin / "sudo").unlink()
        status, printed = machine.run("--no-install", "--seed", "3")
        expect(status == 0 and not machine.calls("apt-get"), machine, printed)
        expect(machine.calls("cartpole_dqn") == ["cartpole_dqn --out runs/cartpole --seed 3"], machine, printed)
        expect("runs/cartpole/curve.png" in printed, machine, printed)
        expect((machine.root / "runs/cartpole/curve.png").exists(), machine, printed)
        expect("\x1b" not in printed, machine, printed)


def called_from_elsewhere_it_names_paths_that_hold_there():
    with Machine() as machine:
        default, given = machine.root / "runs/cartpole", machine.bin / "given"
        status, printed = machine.run("--no-install", folder=machine.bin)
        expect(status == 0 and f"{default}/curve.png" in printed, machine, printed)
        status, printed = machine.run("--no-install", "--out", "given", folder=machine.bin)
        expect(status == 0 and f"{given}/curve.png" in printed and given.is_dir(), machine, printed)


def without_root_and_terminal_it_names_what_to_install():
    with Machine(without=("cmake",)) as machine:
        status, printed = machine.run()
        expect(status == 2 and "apt-get install" in printed and "cmake" in printed, machine, printed)
        expect(not machine.calls("apt-get") and not machine.calls("sudo"), machine, printed)


def root_without_a_terminal_installs_and_says_so():
    with Machine(uid=0, without=("cmake", "sudo")) as machine:
        status, printed = machine.run()
        expect(status == 0 and "Installing cmake" in printed, machine, printed)
        expect(any("cmake" in call for call in machine.calls("apt-get")), machine, printed)


def no_install_binds_root_too():
    with Machine(uid=0, without=("cmake",)) as machine:
        status, printed = machine.run("--no-install")
        expect(status == 2 and not machine.calls("apt-get"), machine, printed)


def yes_uses_sudo_without_asking():
    with Machine(without=("cmake",)) as machine:
        status, printed = machine.run("--yes")
        expect(status == 0 and machine.calls("sudo") and machine.calls("apt-get"), machine, printed)


def a_terminal_is_asked_and_a_no_is_kept():
    with Machine(without=("cmake",)) as machine:
        status, printed = machine.run_on_terminal(b"n\n")
        expect(status == 2 and "[Y/n]" in printed, machine, printed)
        expect(not machine.calls("apt-get") and not machine.calls("sudo"), machine, printed)


def a_terminal_is_asked_and_a_yes_installs():
    with Machine(without=("cmake",)) as machine:
        status, printed = machine.run_on_terminal(b"\n")
        expect(status == 0 and machine.calls("sudo") and "\x1b[1m" in printed, machine, printed)


def a_picture_is_not_worth_failing_for():
    for settings in ({"uid": 1000}, {"uid": 0, "apt": 1}):
        with Machine(without=("matplotlib",), **settings) as machine:
            status, printed = machine.run()
            expect(status == 0 and "no picture" in printed, machine, printed)


def a_failed_installation_of_what_is_needed_ends_it():
    with Machine(uid=0, without=("cmake",), apt=1) as machine:
        status, printed = machine.run()
        expect(status == 2 and "Cannot build without" in printed, machine, printed)


def a_failed_build_ends_it_with_its_log():
    with Machine(configure=1) as machine:
        status, printed = machine.run("--no-install")
        expect(status == 2 and "build/quickstart/log" in printed, machine, printed)
        expect(not machine.calls("cartpole_dqn"), machine, printed)


def a_bad_option_is_refused_before_anything_is_installed_or_built():
    for options, word in ((("--sede", "3"), "--sede"), (("--seed",), "--seed"), (("--steps=1e5",), "1e5"),
                          (("--envs", "two"), "two"), (("--out=",), "--out"), (("--device", ""), "--device"),
                          (("--seed", "3", "cpu"), "cpu")):
        with Machine(uid=0, without=("ninja",)) as machine:
            status, printed = machine.run("--yes", *options)
            expect(status == 2 and word in printed and "--help" in printed, machine, printed)
            expect(not machine.log.read_text(), machine, printed)


def every_training_option_is_in_the_help_and_reaches_the_program():
    names = re.findall(r'^    \{"(\w+)", "\w+",', (EXAMPLES / "options.c").read_text(), flags=re.M)
    assert len(names) == 6, names
    with Machine() as machine:
        status, printed = machine.run("--help")
        expect(status == 0 and all(f"--{name} " in printed for name in names), machine, printed)
        given = [word for name in names if name != "out" for word in (f"--{name}", "7")]
        status, printed = machine.run("--no-install", "--out", "there", *given)
        expect(machine.calls("cartpole_dqn") == [" ".join(["cartpole_dqn --out there", *given])], machine, printed)


def an_unsolved_run_keeps_its_status_and_its_picture():
    with Machine(end=1) as machine:
        status, printed = machine.run("--no-install", "--out=elsewhere")
        expect(status == 1 and (machine.root / "elsewhere/curve.png").exists(), machine, printed)


def a_refused_run_has_no_picture():
    with Machine(end=2) as machine:
        status, printed = machine.run("--no-install")
        expect(status == 2 and not machine.calls("python3") and "picture" not in printed, machine, printed)


def ctrl_c_still_draws_the_picture():
    """A terminal sends Ctrl-C to the script and the program alike."""
    with Machine(end="wait") as machine:
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


def main():
    tests = [
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
    ]
    for test in tests:
        test()
    print(f"test_quickstart: {len(tests)} tests")


if not shutil.which("bash"):
    print("skipped: there is no bash here")
    sys.exit(77)
main()
