# SPDX-License-Identifier: MIT
"""bench/run.sh on a machine that is made up: nothing is left out silently, and Ctrl-C keeps what there is."""

import os
import signal
import subprocess
import time

from machine import Machine, expect, run_tests


def what_was_not_built_is_named_with_the_reason():
    with Machine("bench/run.sh") as machine:
        machine.add(machine.root / "bench/bench_absent.c", "")
        status, printed = machine.run()
        expect(status == 0 and "left out: bench_absent was not built: see build/bench/log" in printed, machine, printed)
        expect("left out: bench_fake" not in printed and len(machine.calls("bench_fake")) == 1, machine, printed)
        machine.add(machine.bin / "cmake", (machine.bin / "cmake").read_text().replace(
            'echo "[1/2] Building"', 'echo "-- bench_absent wants an abacus: left out"'))
        status, printed = machine.run()
        expect("was not built: -- bench_absent wants an abacus" in printed, machine, printed)


# Has matplotlib, and not PyTorch.
DRAWS = '#!/bin/bash\n[ "$1" = -c ] && { [ "$2" = "import matplotlib" ]; exit; }\necho "python3 $*" >>"$FAKE_LOG"\n'


def pictures_are_drawn_by_a_python_that_can():
    with Machine("bench/run.sh") as machine:
        machine.add(machine.bin / "python3", DRAWS)
        status, printed = machine.run("--out", "there")
        expect(status == 0 and machine.calls("python3") == ["python3 bench/plot.py there"], machine, printed)
    with Machine("bench/run.sh", without=("matplotlib",)) as machine:
        status, printed = machine.run("--out", "there")
        expect(status == 0 and "no pictures: matplotlib is not here" in printed, machine, printed)
        expect("apt install python3-matplotlib" in printed and not machine.calls("python3"), machine, printed)


def other_libraries_are_compared_with_where_they_are():
    with Machine("bench/run.sh") as machine:
        status, printed = machine.run("--out", "there")
        expect(status == 0 and "left out: other replay libraries are not here: bash bench/peers/setup.sh" in printed,
               machine, printed)
        python = machine.root / "build/peers/bin/python"
        machine.add(python, '#!/bin/bash\n[ "$1" = -c ] && exit 1\necho "peers $*" >>"$FAKE_LOG"\n')
        status, printed = machine.run("--quick", "--out", "there")
        wanted = "peers bench/peers/peers.py --device cpu --json there/bench_peers.json --quick"
        expect(status == 0 and machine.calls("peers") == [wanted], machine, printed)
        expect("other replay libraries" not in printed, machine, printed)
        machine.add(python, "#!/bin/bash\nexit 1\n")
        status, printed = machine.run()
        expect(status == 1 and "bench_peers failed with status 1" in printed, machine, printed)


def train_steps_are_compared_by_a_python_with_pytorch():
    """On this build's library, by build/peers where that has it, and else by any Python."""
    environment = 'echo "steps $PYTHONPATH $GPUREPLAY_LIBRARY $*" >>"$FAKE_LOG"'
    asked = '[ "$2" = "import numpy, torch" ]; exit'
    with Machine("bench/run.sh") as machine:
        machine.add(machine.bin / "python3", f'#!/bin/bash\n[ "$1" = -c ] && {{ {asked}; }}\n{environment}\n')
        wanted = ("steps src/python build/bench/libgpureplay.so bench/peers/steps/steps.py --device cuda:0 --json "
                  "there/bench_peers_steps.json --quick")
        status, printed = machine.run("--quick", "--device", "cuda:0", "--out", "there")
        expect(status == 0 and machine.calls("steps") == [wanted], machine, printed)
        expect("train steps beside others" not in printed, machine, printed)
        python = machine.root / "build/peers/bin/python"
        machine.add(python, '#!/bin/bash\n[ "$1" = -c ] || echo "peers $*" >>"$FAKE_LOG"\n')
        status, printed = machine.run()
        calls = [call.split()[1] for call in machine.calls("peers")]
        expect(calls == ["bench/peers/peers.py", "bench/peers/steps/steps.py"], machine, printed)
        expect(len(machine.calls("steps")) == 1, machine, printed)
    with Machine("bench/run.sh") as machine:
        machine.add(machine.bin / "python3", DRAWS)
        status, printed = machine.run()
        expect(status == 0 and "left out: train steps beside others: no Python here has PyTorch" in printed, machine,
               printed)


def a_benchmark_that_fails_is_named_and_its_status_kept():
    with Machine("bench/run.sh", bench=3) as machine:
        status, printed = machine.run()
        expect(status == 3 and "bench_fake failed with status 3" in printed and "Samples:" in printed, machine, printed)


def ctrl_c_ends_it_and_says_what_is_there():
    """A terminal sends Ctrl-C to the script and the program alike; bash would go on to the next program."""
    with Machine("bench/run.sh", bench="wait") as machine:
        machine.add(machine.root / "bench/bench_later.c", "")
        with subprocess.Popen(
            machine.command(["--out", "there"]), env=machine.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, cwd=machine.root,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # it may be ignored where tests are run
        ) as script:
            deadline = time.monotonic() + 20
            while not (machine.root / "there/bench_fake.json.waiting").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            os.killpg(script.pid, signal.SIGINT)
            printed, _ = script.communicate(timeout=60)
        expect(script.returncode == 130 and "interrupted; samples until then: there" in printed, machine, printed)
        expect(not machine.calls("python3") and "left out" not in printed, machine, printed)


run_tests([
    what_was_not_built_is_named_with_the_reason,
    pictures_are_drawn_by_a_python_that_can,
    other_libraries_are_compared_with_where_they_are,
    train_steps_are_compared_by_a_python_with_pytorch,
    a_benchmark_that_fails_is_named_and_its_status_kept,
    ctrl_c_ends_it_and_says_what_is_there,
])
