# SPDX-License-Identifier: MIT
"""Plug-ins: that of docs/environments.md, built outside the tree as the page says, and what gpur_env_find refuses.

usage: test_plugin.py libgpureplay.so
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy  # noqa: F401: support needs it
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
import support

ROOT, c_api = support.ROOT, support.c_api
COMPILER = os.environ.get("CC", "cc").split()
NAMED = '.name = "Counter"'


def build(folder, name, source, *options):
    """The plug-in's path. It sees the public headers alone."""
    source_file, plugin = folder / f"{name}.c", folder / f"{name}.so"
    source_file.write_text(source, encoding="utf-8")
    subprocess.run([*COMPILER, *options, "-shared", "-fPIC", f"-I{ROOT / 'include'}", str(source_file), "-o",
                    str(plugin)], check=True)
    return str(plugin)


def refused(call, *words):
    """Exactly a refusal, with these words in it."""
    try:
        call()
    except support.Refused as refusal:
        assert all(word in str(refusal) for word in words), f"\"{refusal}\"; wanted {words}"
        return
    raise AssertionError(f"not refused; wanted {words}")


def find_vector(library, name):
    found = ctypes.c_void_p()
    if library.gpur_vector_env_find(name.encode(), ctypes.byref(found)) != c_api.OK:
        raise support.Refused(library.gpur_last_error().decode())
    return c_api.VectorEnvType.from_address(found.value)


def the_documented_plugin_works(library, folder):
    page = (ROOT / "docs/environments.md").read_text(encoding="utf-8")
    code = re.search(r"^```c\n(.*?)^```$", page, flags=re.S | re.M).group(1)
    assert len(code.splitlines()) == 40
    plugin = build(folder, "corridor", code, "-Wall", "-Werror")
    os.chdir(folder)
    kinds = [support.find(library, name) for name in (plugin, f"{plugin}:Corridor", "./corridor.so")]
    assert len({ctypes.addressof(kind) for kind in kinds}) == 1  # one copy of the type
    env = support.Environment(kinds[0], "length=4")
    assert env.obs.shape == (1,) and env.info.action.num_actions == 2 and not kinds[0].save and not kinds[0].load
    assert env.reset()[0] == 0
    steps = [(float(obs[0]), *rest) for obs, *rest in map(env.step, (1, 0, 1, 1))]
    assert [step[1:] for step in steps] == [(0, 0, 0)] * 4 and abs(steps[-1][0] - 2 / 3) < 1e-6
    assert env.step(1)[1:] == (1, 1, 0) and env.obs[0] == 1
    env.reset()
    assert [env.step(0)[3] for _ in range(100)] == [0] * 99 + [1]
    env.close()
    refused(lambda: support.Environment(kinds[0], "width=4"), 'the options are "width=4"; they must be length=N')
    refused(lambda: find_vector(library, plugin), "exports gpur_env_plugin and no gpur_vector_env_plugin: its "
                                                  "environments step one at a time")
    refused(lambda: support.find(library, "corridor.so"), "corridor.so: cannot open", "begins with ./")


def what_is_no_plugin_is_refused(library, folder):
    (folder / "text.so").write_text("no shared object")
    build(folder, "empty", "int x;")
    build(folder, "missing", "int f(void); int g(void) { return f(); }")
    cases = {"text.so": "it cannot be opened", "empty.so": "it exports no gpur_env_plugin, which every plug-in must",
             "missing.so": "undefined symbol: f", "absent.so": "No such file or directory"}
    for name, words in cases.items():
        refused(lambda name=name: support.find(library, str(folder / name)), str(folder / name), words)
    os.rename(folder / "empty.so", folder / "plugin")  # a file by its slash
    refused(lambda: support.find(library, str(folder / "plugin")), "it exports no gpur_env_plugin")
    refused(lambda: support.find(library, str(folder / "plugout")), "no game and no file is named")


def spoiled_types_are_refused(library, folder):
    source = (ROOT / "tests/env/plugin.c").read_text(encoding="utf-8")
    size = f"{NAMED}, .size = "
    cases = {
        ".name = 0": "the type has no name", f"{NAMED}, .init = 0": "the type has no function init; only save and load",
        f"{NAMED}, .reset = 0": "no function reset", f"{NAMED}, .step = 0": "no function step",
        f"{NAMED}, .close = 0": "no function close", f"{NAMED}, .save = 0": "the type Counter has load and no save",
        f"{NAMED}, .load = 0": "the type Counter has save and no load; it must have both or neither",
        size + "0": "gpur_env_type.size is 0; it must be sizeof(gpur_env_type)", size + "70000": "size is 70000",
        size + "offsetof(gpur_env_type, step)": "no function step",
        size + "sizeof(later_type)": "has a setting at byte 72 that this version of the library",
    }
    vector = '.name = "Counters"'
    vector_cases = {
        ".name = 0": "the type has no name", f"{vector}, .step = 0": "no function step",
        f"{vector}, .autoreset = 0": "autoreset of the type Counters is 0; it must be GPUR_AUTORESET_NEXT_STEP (1)",
        f"{vector}, .reserved = 3": "reserved of the type Counters is 3; it must be 0",
        f"{vector}, .size = 7": "gpur_vector_env_type.size is 7",
    }
    for number, (change, words) in enumerate(cases.items()):
        plugin = build(folder, f"spoiled{number}", source, f"-DCHANGE={change}")
        refused(lambda plugin=plugin: support.find(library, plugin), f"plug-in {plugin}: ", words)
    for number, (change, words) in enumerate(vector_cases.items()):
        plugin = build(folder, f"spoiled_vector{number}", source, f"-DVECTOR_CHANGE={change}")
        refused(lambda plugin=plugin: find_vector(library, plugin), f"plug-in {plugin}: ", words)


def older_and_good_types_are_found(library, folder):
    source = (ROOT / "tests/env/plugin.c").read_text(encoding="utf-8")
    good = build(folder, "good", source)
    env = support.Environment(support.find(library, f"{good}:Anything"))
    assert env.reset()[0] == 0 and env.kind.save and env.kind.load
    refused(lambda: support.find(library, f"{good}:Nothing"), 'has no type "Nothing"')
    refused(lambda: find_vector(library, f"{good}:Nothing"), 'its gpur_vector_env_plugin has no type "Nothing"')
    older = build(folder, "older", source, f"-DCHANGE={NAMED}, .size = offsetof(gpur_env_type, save)")
    kind = support.find(library, older)
    assert kind.size == ctypes.sizeof(c_api.EnvType) and kind.step and not kind.save and not kind.load
    folder_with_colon = folder / "a:b"
    folder_with_colon.mkdir()
    assert support.find(library, build(folder_with_colon, "good", source) + ":Mine/Counter").name == b"Counter"


def a_vector_type_steps(library, folder):
    kind = find_vector(library, build(folder, "vector", (ROOT / "tests/env/plugin.c").read_text(encoding="utf-8")))
    assert kind.name == b"Counters" and kind.autoreset == c_api.AUTORESET_NEXT_STEP
    info, handle, obs, reward = c_api.EnvInfo(), ctypes.c_void_p(), ctypes.c_float(9), ctypes.c_float()
    flags = (ctypes.c_uint8 * 3)(9, 9, 9)
    at = ctypes.addressof(flags)
    assert kind.init(b"", 0, 2, ctypes.addressof(info), ctypes.addressof(handle)) == b"num_envs must be 1"
    assert kind.init(b"", 0, 1, ctypes.addressof(info), ctypes.addressof(handle)) is None
    assert kind.reset(handle, ctypes.addressof(obs)) is None and obs.value == 0
    result = c_api.VectorResult(ctypes.addressof(obs), None, ctypes.addressof(reward), at, at + 1, at + 2)
    for step in (1, 2, 3):
        assert kind.step(handle, ctypes.addressof(obs), ctypes.addressof(result)) is None
        assert (obs.value, reward.value, list(flags)) == (step, 1, [step == 3, 0, 0])
    kind.close(handle)


def main():
    library = support.load(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        for test in (the_documented_plugin_works, what_is_no_plugin_is_refused, spoiled_types_are_refused,
                     older_and_good_types_are_found, a_vector_type_steps):
            test(library, Path(folder))
        os.chdir(ROOT)
    print("test_plugin: 5 tests")


main()
