# SPDX-License-Identifier: MIT
"""The package's ctypes mirror against headers and compiler, and a replay driven through the shared library by it alone.

usage: test_ctypes.py libgpureplay.so print_layout
"""

import ctypes
import subprocess
import sys

import ctypes_headers
from ctypes_mirror import layout, mirror

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


def the_constants_are_the_headers():
    ours = {name: value for name, value in vars(mirror).items() if name.isupper() and isinstance(value, int)}
    assert ours == ctypes_headers.constants(), set(ours.items()) ^ set(ctypes_headers.constants().items())
    return len(ours)


def element(declared):
    """A member's type without its array: pointers to whatever are pointers."""
    while hasattr(declared, "_length_"):
        declared = declared._type_
    return ctypes.c_void_p if issubclass(declared, ctypes._Pointer) else declared


def the_structs_are_the_headers():
    """Every struct, and every member of it: name, place and type. Array lengths show in the compiler's sizes."""
    structs = {struct.c_name: struct for struct in mirror.STRUCTS}
    theirs = ctypes_headers.members(structs)
    assert theirs.keys() == structs.keys(), theirs.keys() ^ structs.keys()
    for name, struct in structs.items():
        ours = [(member, element(declared), hasattr(declared, "_length_")) for member, declared in struct._fields_]
        wanted = [(member, declared, bool(bounds)) for member, declared, bounds in theirs[name]]
        assert ours == wanted, f"{name}: ctypes {ours}, headers {wanted}"


def the_functions_are_the_headers():
    theirs = ctypes_headers.functions({})
    assert mirror.FUNCTIONS.keys() == theirs.keys(), mirror.FUNCTIONS.keys() ^ theirs.keys()
    for name, ours in mirror.FUNCTIONS.items():
        assert ours == theirs[name], f"{name}: ctypes {ours}, header {theirs[name]}"
    return len(theirs)


def call(library, name, *arguments, wanted=0):
    """A call that returns a status, which is checked; gives the error's text."""
    status = getattr(library, name)(*arguments)
    error = library.gpur_last_error().decode()
    assert status == wanted, f"{name}: status {status}, wanted {wanted}: {error}"
    return error


def create_replay(library, device):
    fields = (mirror.Field * 3)()
    fields[0].name, fields[0].dtype = b"tag", mirror.INT64
    fields[1].name, fields[1].dtype, fields[1].shape[0] = b"obs", mirror.FLOAT32, 3
    fields[2].name, fields[2].dtype = b"action", mirror.INT32
    config = mirror.ReplayConfig()
    call(library, "gpur_replay_config_init", ctypes.byref(config), ctypes.c_uint64(ctypes.sizeof(config)))
    assert config.size == ctypes.sizeof(config) and config.capacity == 1_000_000 and abs(config.gamma - 0.99) < 1e-6
    config.capacity, config.fields, config.field_count, config.seed = CAPACITY, fields, 3, 7
    replay = ctypes.c_void_p()
    call(library, "gpur_replay_create", device, ctypes.byref(config), ctypes.byref(replay))
    for index, name in enumerate(("tag", "obs", "action")):
        info = mirror.FieldInfo()
        call(library, "gpur_replay_get_field", replay, index, ctypes.byref(info))
        assert info.name.decode() == name and info.offset == getattr(Row, name).offset, (name, info.offset)
    return replay


def rows_appended_are_drawn(library, device):
    replay, writer, batch = create_replay(library, device), ctypes.c_void_p(), ctypes.c_void_p()
    call(library, "gpur_replay_sample", replay, ctypes.c_int64(BATCH), None, ctypes.byref(batch), wanted=3)
    call(library, "gpur_writer_create", replay, 1, ctypes.byref(writer))
    rows = (Row * ROWS)(*(Row(1000 + i, (i, 2 * i, 3 * i), -i) for i in range(ROWS)))
    taken = ctypes.c_int64()
    call(library, "gpur_writer_append", writer, ctypes.c_int64(ROWS), rows, ctypes.byref(taken))
    assert taken.value == ROWS and library.gpur_replay_size(replay) == ROWS

    call(library, "gpur_replay_sample", replay, ctypes.c_int64(BATCH), None, ctypes.byref(batch))
    got = {"tag": (ctypes.c_int64 * BATCH)(), "obs": (ctypes.c_float * (3 * BATCH))(),
           "action": (ctypes.c_int32 * BATCH)(), "id": (ctypes.c_int64 * BATCH)()}
    for name, values in got.items():
        call(library, "gpur_batch_read", batch, name.encode(), values, ctypes.c_int64(ctypes.sizeof(values)))
    for b in range(BATCH):
        i = got["tag"][b] - 1000
        assert 0 <= i < ROWS and got["id"][b] == i, (i, got["id"][b])
        assert list(got["obs"][3 * b:3 * b + 3]) == [i, 2 * i, 3 * i] and got["action"][b] == -i
    assert len(set(got["id"])) > 1, "every draw is the same row"

    stats = mirror.ReplayStats()
    call(library, "gpur_replay_get_stats", replay, ctypes.byref(stats))
    assert (stats.appended, stats.published, stats.sampled) == (ROWS, ROWS, BATCH)
    library.gpur_batch_release(batch)
    library.gpur_writer_destroy(writer)
    library.gpur_replay_destroy(replay)


def main():
    members = the_compiler_agrees(sys.argv[2])
    the_structs_are_the_headers()
    constants, functions = the_constants_are_the_headers(), the_functions_are_the_headers()
    library, device, info = mirror.load(sys.argv[1]), ctypes.c_void_p(), mirror.DeviceInfo()
    message = call(library, "gpur_device_open", b"abacus", None, ctypes.byref(device), wanted=1)
    assert "abacus" in message, message
    call(library, "gpur_device_open", b"cpu", None, ctypes.byref(device))
    call(library, "gpur_device_get_info", device, ctypes.byref(info))
    assert info.name == b"cpu" and not info.is_cuda and info.threads >= 1
    rows_appended_are_drawn(library, device)
    library.gpur_device_close(device)
    print(f"test_ctypes: {members} sizes and offsets, {constants} constants and {functions} functions agree, {ROWS} "
          f"rows went in and {BATCH} came out")


main()
