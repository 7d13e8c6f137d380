# SPDX-License-Identifier: MIT
"""The training program's progress line in windows of several widths, and in a log. argv: program."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

PROGRAM = sys.argv[1]
NUMBER = r"(?:-|\d+(?:\.\d+)?)"
# In the order of the line: what a narrow window keeps stands first.
PARTS = [rf"{NUMBER} steps", rf"return {NUMBER}", rf"greedy {NUMBER}", r"<\d+:\d\d left", rf"{NUMBER} steps/s",
         rf"loss {NUMBER}", rf"{NUMBER} episodes"]


def parts_of(line):
    """How many parts a line has; each must be whole, and none left out between."""
    parts = line.split("  ")
    assert len(parts) <= len(PARTS), line
    for part, pattern in zip(parts, PARTS):
        assert re.fullmatch(pattern, part), f"{part!r} is not {pattern!r} in {line!r}"
    return len(parts)


def train_in_window(columns, folder):
    """All that a terminal so wide is shown."""
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([PROGRAM, "--device", "cpu", "--steps", "2048", "--seed", "3", "--out", folder],
                          stdout=terminal, stderr=terminal) as program:
        os.close(terminal)
        shown = b""
        while True:
            try:
                shown += os.read(master, 4096)
            except OSError:  # the other end is closed
                break
        assert program.wait(timeout=60) == 1, shown
    os.close(master)
    return shown.decode()


def lines_in_window(columns, folder):
    """The progress line as it was each time. Above it stand the device, and what a
    build lacks; below it how it ended."""
    shown = train_in_window(columns, folder)
    progress = next(line for line in shown.split("\r\n") if "\r" in line)
    lines = [line.replace("\x1b[K", "") for line in progress.split("\r")[1:]]
    assert len(lines) >= 2, shown
    return lines


def it_fits_its_window(folder):
    for columns, least in ((200, 7), (120, 7), (80, 5), (60, 4), (40, 2), (20, 1), (0, 5)):
        for line in lines_in_window(columns, folder):
            assert len(line) < (columns or 80), (columns, line)
            assert least <= parts_of(line) and (columns < 120 or parts_of(line) == 7), (columns, line)


def a_window_too_narrow_for_the_first_part_shows_none(folder):
    assert not any(lines_in_window(9, folder))


def the_last_column_stays_empty(folder):
    """What fills a window to its last column would leave the cursor on the next line in some terminals."""
    three = "  ".join(lines_in_window(200, folder)[-1].split("  ")[:3])
    assert lines_in_window(len(three) + 1, folder)[-1] == three
    assert parts_of(lines_in_window(len(three), folder)[-1]) == 2


def a_log_has_whole_lines(folder):
    done = subprocess.run([PROGRAM, "--device", "cpu", "--envs", "1", "--seconds", "4", "--seed", "7", "--out", folder],
                          capture_output=True, text=True, timeout=60, check=False)
    lines = [line for line in done.stdout.splitlines()[1:] if not line.startswith("to go on:")][:-2]
    assert lines and "\r" not in done.stdout and all(parts_of(line) == 7 for line in lines), done


def main():
    tests = [it_fits_its_window, a_window_too_narrow_for_the_first_part_shows_none, the_last_column_stays_empty,
             a_log_has_whole_lines]
    with tempfile.TemporaryDirectory() as folder:
        for test in tests:
            test(str(Path(folder) / "run"))
    print(f"test_progress: {len(tests)} tests")


main()
