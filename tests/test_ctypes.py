# SPDX-License-Identifier: MIT
"""The public structs as ctypes sees them, and a replay driven through the shared library with nothing but ctypes.

usage: test_ctypes.py libgpureplay.so print_layout
"""

import ctypes
import re
import subprocess
import sys
from pathlib import Path

from ctypes_mirror import DeviceInfo, Field, FieldInfo, ReplayConfig, ReplayStats, layout

HEADERS = Path(__file__).resolve().parent.parent / "include/gpureplay"
FLOAT32, INT32, INT64 = 1, 4, 5
CAPACITY, ROWS, BATCH = 64, 40, 16


class Row(ctypes.Structure):
    """A packed row, as a C struct of the schema's members would be."""

    _fields_ = [("tag", ctypes.c_int64), ("obs", ctypes.c_float * 3), ("action", ctypes.c_int32)]


def the_compiler_agrees(print_layout):
    theirs = {}
    for line in subprocess.run([print_layout], check=True, capture_output=True, text=True).stdout.splitlines():
        name, *numbers = line.split()
        theirs[name] = tuple(map(int, numbers)) if "." in name else int(numbers[0])
    ours = layout()
    wrong = [f"{name}: ctypes {ours[name]}, C {theirs.get(name)}" for name in ours if ours[name] != theirs.get(name)]
    assert not wrong, "\n".join(wrong)
    return len(ours)


def no_struct_is_missing():
    """Every struct with members, and every member of it: a name followed by `;`, `,` or `[` in the struct's body."""
    ours = layout()
    for header in sorted(HEADERS.glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(encoding="utf-8"), flags=re.S)
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, flags=re.S):
            for member in re.findall(r"(\w+)(?:\[\w+\])*;", body):
                assert f"{name}.{member}" in ours, f"{header.name}: {name}.{member} is not mirrored"


class Library:
    """The shared library; every call that returns a status is checked."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.gpur_last_error.restype = ctypes.c_char_p
        self.library.gpur_replay_size.restype = ctypes.c_int64

    def call(self, name, *arguments, wanted=0):
        status = getattr(self.library, name)(*arguments)
        error = self.library.gpur_last_error().decode()
        assert status == wanted, f"{name}: status {status}, wanted {wanted}: {error}"
        return error


def create_replay(library, device):
    fields = (Field * 3)()
    fields[0].name, fields[0].dtype = b"tag", INT64
    fields[1].name, fields[1].dtype, fields[1].shape[0] = b"obs", FLOAT32, 3
    fields[2].name, fields[2].dtype = b"action", INT32
    config = ReplayConfig()
    library.call("gpur_replay_config_init", ctypes.byref(config), ctypes.c_uint64(ctypes.sizeof(config)))
    assert config.size == ctypes.sizeof(config) and config.capacity == 1_000_000 and abs(config.gamma - 0.99) < 1e-6
    config.capacity, config.fields, config.field_count, config.seed = CAPACITY, fields, 3, 7
    replay = ctypes.c_void_p()
    library.call("gpur_replay_create", device, ctypes.byref(config), ctypes.byref(replay))
    for index, name in enumerate(("tag", "obs", "action")):
        info = FieldInfo()
        library.call("gpur_replay_get_field", replay, index, ctypes.byref(info))
        assert info.name.decode() == name and info.offset == getattr(Row, name).offset, (name, info.offset)
    return replay


def rows_appended_are_drawn(library, device):
    replay, writer, batch = create_replay(library, device), ctypes.c_void_p(), ctypes.c_void_p()
    library.call("gpur_replay_sample", replay, ctypes.c_int64(BATCH), None, ctypes.byref(batch), wanted=3)
    library.call("gpur_writer_create", replay, 1, ctypes.byref(writer))
    rows = (Row * ROWS)(*(Row(1000 + i, (i, 2 * i, 3 * i), -i) for i in range(ROWS)))
    taken = ctypes.c_int64()
    library.call("gpur_writer_append", writer, ctypes.c_int64(ROWS), rows, ctypes.byref(taken))
    assert taken.value == ROWS and library.library.gpur_replay_size(replay) == ROWS

    library.call("gpur_replay_sample", replay, ctypes.c_int64(BATCH), None, ctypes.byref(batch))
    got = {"tag": (ctypes.c_int64 * BATCH)(), "obs": (ctypes.c_float * (3 * BATCH))(),
           "action": (ctypes.c_int32 * BATCH)(), "id": (ctypes.c_int64 * BATCH)()}
    for name, values in got.items():
        library.call("gpur_batch_read", batch, name.encode(), values, ctypes.c_int64(ctypes.sizeof(values)))
    for b in range(BATCH):
        i = got["tag"][b] - 1000
        assert 0 <= i < ROWS and got["id"][b] == i, (i, got["id"][b])
        assert list(got["obs"][3 * b:3 * b + 3]) == [i, 2 * i, 3 * i] and got["action"][b] == -i
    assert len(set(got["id"])) > 1, "every draw is the same row"

    stats = ReplayStats()
    library.call("gpur_replay_get_stats", replay, ctypes.byref(stats))
    assert (stats.appended, stats.published, stats.draws) == (ROWS, ROWS, BATCH)
    library.library.gpur_batch_release(batch)
    library.library.gpur_writer_destroy(writer)
    library.library.gpur_replay_destroy(replay)


def main():
    members = the_compiler_agrees(sys.argv[2])
    no_struct_is_missing()
    library, device, info = Library(sys.argv[1]), ctypes.c_void_p(), DeviceInfo()
    message = library.call("gpur_device_open", b"abacus", None, ctypes.byref(device), wanted=1)
    assert "abacus" in message, message
    library.call("gpur_device_open", b"cpu", None, ctypes.byref(device))
    library.call("gpur_device_get_info", device, ctypes.byref(info))
    assert info.name == b"cpu" and not info.is_cuda and info.threads >= 1
    rows_appended_are_drawn(library, device)
    library.library.gpur_device_close(device)
    print(f"test_ctypes: {members} sizes and offsets agree, {ROWS} rows went in and {BATCH} came out")


main()
