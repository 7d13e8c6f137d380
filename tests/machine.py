# SPDX-License-Identifier: MIT
"""A machine that is made up, for tests of the scripts: a folder with a copy of them, and a bin/ that is all of PATH.

Compilers, cmake, the package manager and sudo are stand-ins that write down how they were called. "Installing" a
package there makes its stand-in appear."""

import os
import pty
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("awk basename bash cat chmod cut date dirname env find grep head ls mkdir mktemp nproc realpath rm sed seq "
         "sleep sort tail tee timeout touch tr true uname wc").split()

# Refuses another generator than the folder has, as the real one does. --build makes the training program, which writes
# a curve and ends as FAKE_END says, or at Ctrl-C, and a benchmark, which ends as FAKE_BENCH says.
CMAKE = """#!/bin/bash
echo "cmake $*" >>"$FAKE_LOG"
configure() {
    local folder=$1 wanted=$2 held
    mkdir -p "$folder"
    held=$(cat "$folder/CMakeCache.txt" 2>/dev/null)
    if [ -n "$held" ] && [ -n "$wanted" ] && [ "$held" != "$wanted" ]; then
        echo "CMake Error: generator : $wanted does not match the generator used previously: $held"
        exit 1
    fi
    held=${held:-${wanted:-Makefile}}
    echo "$held" >"$folder/CMakeCache.txt"
    [ "${FAKE_CONFIGURE:-0}" = 0 ] || { echo "a word on what is wrong" && exit 1; }
    if [ "$held" = Ninja ]; then touch "$folder/build.ninja"; else touch "$folder/Makefile"; fi
}
if [ "$1" != --build ]; then
    case " $* " in *" -G Ninja "*) configure "$4" Ninja ;; *) configure "$4" '' ;; esac
    exit 0
fi
echo "[1/2] Building"
[ "${FAKE_BUILD:-0}" = 0 ] || { echo "a word on what is wrong" && exit 1; }
mkdir -p "$2/examples" "$2/bench"
cat >"$2/bench/bench_fake" <<'PROGRAM'
#!/bin/bash
echo "bench_fake $*" >>"$FAKE_LOG"
touch "$4"
trap 'exit 130' INT
if [ "${FAKE_BENCH:-0}" = wait ]; then
    touch "$4.waiting"
    for _ in {1..100}; do sleep 0.1; done
fi
exit "${FAKE_BENCH:-0}"
PROGRAM
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
chmod +x "$2/examples/cartpole_dqn" "$2/bench/bench_fake"
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
[ -z "$3" ] || touch "$3"
"""
STUBS = {
    "cmake": CMAKE, "apt-get": APT, "python3": PYTHON, "matplotlib": "", "cc": "", "gcc": "", "ninja": "",
    "ctest": LOGGED.format(name="ctest"), "sudo": LOGGED.format(name="sudo") + 'exec "$@"\n',
    "id": "#!/bin/bash\necho $FAKE_UID\n",
}


class Machine:
    """Runs one script of ours, "examples/quickstart.sh" say."""

    def __init__(self, script, uid=1000, without=(), **settings):
        self.root = Path(tempfile.mkdtemp())
        self.bin, self.log, self.script = self.root / "bin", self.root / "log", self.root / script
        self.bin.mkdir()
        self.log.touch()
        self.copy_scripts()
        self.add(self.root / "bench/bench_fake.c", "")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        for name, text in STUBS.items():
            self.add(self.bin / (name + ".off" if name in without else name), text)
        self.environment = {
            "PATH": str(self.bin), "FAKE_BIN": str(self.bin), "FAKE_LOG": str(self.log), "FAKE_UID": str(uid),
            "TMPDIR": str(self.root), "HOME": str(self.root),
            **{"FAKE_" + name.upper(): str(value) for name, value in settings.items()},
        }

    def copy_scripts(self):
        for path in [path for folder in ("bench", "bench/peers", "examples", "tests")
                     for path in (ROOT / folder).glob("*.sh")]:
            copy = self.root / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            # Debian's own Python, which quickstart.sh would find by its path, is the real machine's: leave it out.
            copy.write_text(path.read_text().replace("/usr/bin/python3", "no-such-python"))

    @staticmethod
    def add(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def command(self, options):
        return [str(self.bin / "bash"), str(self.script), *options]

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


def run_tests(tests):
    """All of them, by the program that was started; skipped where there is no bash to run a script with."""
    if not shutil.which("bash"):
        print("skipped: there is no bash here")
        sys.exit(77)
    for test in tests:
        test()
    print(f"{Path(sys.argv[0]).stem}: {len(tests)} tests")


def expect(holds, machine, printed):
    assert holds, f"printed:\n{printed}\ncalled:\n{machine.log.read_text()}"
