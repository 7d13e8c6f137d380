# SPDX-License-Identifier: MIT
"""What a release has promised is still there: functions, constants, structs, defaults, presets, options of training,
columns of a run's files and the Python package's names, against the record of that release. What has changed or is gone
fails, with its name. What is new passes, once the changelog says that the version is released; before, the record must
have it.

usage: test_abi.py libgpureplay.so
       test_abi.py libgpureplay.so --write      records what is there now, as a release does
"""

import copy
import ctypes
import importlib
import inspect
import json
import os
import re
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True  # beside the sources
sys.path.insert(0, str(ROOT / "docs/reference"))
headers = importlib.import_module("headers")
RECORD = Path(__file__).with_name("abi.json")
# gpureplay.sb3 and gpureplay.fast_td3 have the names of the classes whose place they take, which their own tests call.
MODULES = ["gpureplay", "gpureplay.compare", "gpureplay.data", "gpureplay.envs", "gpureplay.jax", "gpureplay.play",
           "gpureplay.plot", "gpureplay.ray", "gpureplay.tensorboard", "gpureplay.train"]
# A preset of each system, whose runs have other columns, and what it needs.
RUNS = {"fast-dqn-small": "env=CartPole-v1", "apex-dqn-small": "env=CartPole-v1", "apex-dpg-small": "env=Pendulum",
        "ga3c-small": "env=CartPole-v1", "a3c-small": "env=CartPole-v1", "a2c-small": "env=CartPole-v1",
        "td3-small": "env=Pendulum", "sac-small": "env=Pendulum", "offline-dqn": "data={}", "offline-dpg": "data={}",
        "offline-sac": "data={}"}
VECTORS = "offline-dpg", "offline-sac"
SYSTEMS, MOST = 16, 100  # more than there are kinds of presets; and presets, or options of one

# What is there.


def type_name(kind):
    """ "c_int32", "c_float*3", or "c_void_p" for each address."""
    if hasattr(kind, "_length_"):
        return f"{type_name(kind._type_)}*{kind._length_}"
    if issubclass(kind, ctypes._Pointer) or hasattr(kind, "_flags_"):
        return "c_void_p"
    return getattr(kind, "c_name", "") or kind.__name__


def functions(c_api):
    return {name: f"{result.__name__ if result else 'None'} ({', '.join(map(type_name, arguments))})"
            for name, (result, arguments) in c_api.FUNCTIONS.items()}


def c_type(declared):
    """Of "const float *q" or "int32_t shape[6]" the type: "const float *", "int32_t [6]"."""
    declared = " ".join(declared.split())
    return re.sub(r"\s*\b\w+(\[\w*\])?$", r" \1", declared).strip() if " " in declared else declared


def signatures():
    """The types of what functions, callbacks and entry points of plug-ins take and return, as C has them, and of the
    pointers in structs."""
    found = {}
    for one in headers.declarations():
        if one.kind in ("function", "plug-in", "callback"):
            found[one.name] = f"{one.kind} {one.result} ({', '.join(map(c_type, one.arguments.split(',')))})"
        for member, *_ in one.members if one.kind == "struct" else ():
            if "*" in member or "_fn " in member:
                found[f"{one.name}: {member}"] = ""
    return found


def constants(c_api):
    return {name: value for name, value in vars(c_api).items() if name.isupper() and isinstance(value, int)}


def structs(c_api):
    return {struct.c_name: {"grows": issubclass(struct, c_api.Sized), "size": ctypes.sizeof(struct),
                            "members": {name: f"{type_name(kind)} at {getattr(struct, name).offset}"
                                        for name, kind in struct._fields_}}
            for struct in vars(c_api).values()
            if inspect.isclass(struct) and issubclass(struct, c_api.Struct) and struct.c_name}


def values(struct):
    """The members' values; of an address only whether there is one."""
    found = {}
    for name, kind in struct._fields_:
        value = getattr(struct, name)
        if isinstance(value, ctypes.Structure):
            found |= {f"{name}.{inner}": one for inner, one in values(value).items()}
        elif isinstance(value, ctypes.Array):
            found[name] = [values(one) if isinstance(one, ctypes.Structure) else one for one in value]
        elif type_name(kind) == "c_void_p":
            found[name] = "an address" if value else "NULL"
        else:
            found[name] = value.decode() if isinstance(value, bytes) else "NULL" if value is None else value
    return found


def defaults(lib, c_api):
    found = {}
    for struct in vars(c_api).values():
        init = getattr(struct, "c_name", "") + "_init"
        if init in c_api.FUNCTIONS:
            config = struct()
            assert getattr(lib, init)(ctypes.addressof(config), ctypes.sizeof(config)) == 0, init
            found |= {f"{struct.c_name}.{name}": value for name, value in values(config).items()
                      if name != "size"}  # which may grow with the struct
    return found


def presets(lib):
    """The options of each preset with their values, as its help shows them."""
    found, text = {}, ctypes.create_string_buffer(1 << 16)
    for i in range(MOST):
        preset = lib.gpur_preset_name(i, None)
        if not preset:
            break
        assert lib.gpur_training_help(preset, None, None, text, len(text)) == 0, lib.gpur_last_error()
        found |= {f"{preset.decode()}: {option}": value
                  for option, value in re.findall(r"^  --([\w-]+) (\S+)", text.value.decode(), flags=re.M)}
    return found


def options(lib):
    """The options of training of each system, of which a preset's help shows not all, and the words of values."""
    found = {}
    for name, system in ((lib.gpur_training_option_name(system, i), system)
                         for system in range(SYSTEMS) for i in range(MOST)):
        words = lib.gpur_training_option_value(name).decode().split("|") if name else []
        found |= {f"{name.decode()} {word} of system {system}": "" for word in words}
    return found


def columns(lib, c_api, package):
    """Those of the files of a run, and of the rows that a listener gets, by preset and kind. They are known when a
    training has begun. None: the library was built without files, which offline presets read."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for preset, needed in RUNS.items():
            if "{}" in needed:
                try:
                    needed = needed.format(rows_of(package, folder, preset))
                except package.Unavailable:
                    return None
            for kind, names in columns_of(lib, c_api, preset, needed).items():
                found |= {f"{preset}: {kind} {name}": "" for name in names}
    return found


def rows_of(package, folder, preset):
    """The path of a file of transitions."""
    action = ((1,), "float32") if preset in VECTORS else "int64"
    fields = {"obs": ((4,), "float32"), "action": action, "reward": "float32", "next_obs": ((4,), "float32"),
              "terminated": "bool"}
    with package.ReplayBuffer(64, fields, device="cpu") as buffer:
        for step in range(64):
            buffer.add(obs=[step] * 4, action=[step % 2] if preset in VECTORS else step % 2, reward=1,
                       next_obs=[step + 1] * 4, terminated=False)
        buffer.save(f"{folder}/{preset}")
    return f"{folder}/{preset}"


def columns_of(lib, c_api, preset, needed):
    """{kind: [column]} of a training."""
    found, config, training = {}, c_api.TrainingConfig(), ctypes.c_void_p()
    assert lib.gpur_training_config_init(ctypes.addressof(config), ctypes.sizeof(config)) == 0
    kind_of_listener = dict(config._fields_)["on_row"]

    def listen(_user, kind, count, names, numbers, _words):
        if not numbers:
            found[kind.decode()] = [one.decode() for one in (ctypes.c_char_p * count).from_address(names)]

    words = [f"preset={preset}".encode(), b"device=cpu", needed.encode(), None]
    options, listener = (ctypes.c_char_p * len(words))(*words), kind_of_listener(listen)
    config.options, config.on_row = ctypes.addressof(options), listener
    steps = [lambda: lib.gpur_training_create(ctypes.addressof(config), ctypes.addressof(training)),
             lambda: lib.gpur_training_open(training), lambda: lib.gpur_training_begin(training)]
    for step in steps:
        assert step() == 0, f"{preset}: {lib.gpur_last_error().decode()}"
    lib.gpur_training_destroy(training)
    assert {"episode", "evaluation", "rates"} <= found.keys(), found
    return found


def parameters(function):
    """What a caller may write: each argument by its name, with its default, and those that may stand at their place.
    And what a caller must write."""
    found, required = {}, []
    for at, one in enumerate(inspect.signature(function).parameters.values()):
        named = one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)
        plain = isinstance(one.default, (int, float, str, bool, tuple, type(None)))
        if named:
            found[one.name] = "" if one.default is one.empty else repr(one.default) if plain else "a value"
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD):
            found[f"{one.name} at {at}"] = ""
        if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL) and one.default is one.empty:
            required.append(one.name)
    return {**found, "required": ", ".join(required)}


def python_names(module):
    found = {}
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.ismodule(value) or not getattr(value, "__module__", "").startswith(
                "gpureplay"):
            continue
        if module.__name__ != "gpureplay" and value.__module__ != module.__name__:
            continue
        members = {name: value}
        if inspect.isclass(value):
            members |= {f"{name}.{member}": one for member, one in inspect.getmembers(value)
                        if not member.startswith("_")
                        and any(member in vars(base) for base in value.__mro__ if "gpureplay" in base.__module__)}
        for member, one in members.items():
            found[f"{module.__name__}.{member}"] = ""
            if inspect.isroutine(one) or inspect.isclass(one):
                try:
                    found |= {f"{module.__name__}.{member}({argument})": kind
                              for argument, kind in parameters(one).items()}
                except ValueError:  # written in C
                    pass
    return found


def record(library):
    os.environ["GPUREPLAY_LIBRARY"] = library
    sys.path.insert(0, str(ROOT / "src/python"))
    c_api = importlib.import_module("gpureplay._c_api")
    package = importlib.import_module("gpureplay")
    names, missing = {}, []
    for name in MODULES:
        try:
            names |= python_names(importlib.import_module(name))
        except ImportError:
            missing.append(name)
    found = {"version": package.__version__, "functions": functions(c_api), "signatures": signatures(),
             "constants": constants(c_api), "structs": structs(c_api), "defaults": defaults(package.lib, c_api),
             "presets": presets(package.lib), "options": options(package.lib),
             "columns": columns(package.lib, c_api, package), "python": names}
    return {kind: what for kind, what in found.items() if what is not None}, \
        missing + [kind for kind, what in found.items() if what is None]


# Comparing it.


def known_of(was, now):
    """The members of structs in arrays that were there, but for reserved words, of which some may be settings now."""
    if isinstance(was, list) and was and isinstance(was[0], dict):
        return [{key: one.get(key) for key in old if key != "reserved"} for old, one in zip(was, now, strict=True)]
    return now


def changes(promised, found, missing=()):
    """A line for each name that has changed or is gone."""
    lines = []

    def compare(kind, name, was, now):
        if now is None:
            lines.append(f"{kind} {name} is gone")
        elif known_of(was, now) != known_of(was, was):
            lines.append(f"{kind} {name} was {was!r} and is {now!r}")

    for kind in ("functions", "signatures", "constants", "defaults", "presets", "options", "columns", "python"):
        for name, was in promised[kind].items() if kind in found else ():
            if kind == "defaults" and name.endswith((".size", ".reserved")):
                continue  # of the struct, which may grow, and of its words for later settings: see below
            if not any(name.startswith(module + ".") for module in missing):
                compare(kind, name, was, found[kind].get(name))
    for name, was in promised["structs"].items():
        now = found["structs"].get(name)
        if now is None:
            lines.append(f"struct {name} is gone")
            continue
        for member, place in was["members"].items():
            if member == "reserved":
                continue  # its first words may have become settings, of which 0 is the default
            compare("member", f"{name}.{member}", place, now["members"].get(member))
        if now["size"] < was["size"] or (now["size"] > was["size"] and not was["grows"]):
            lines.append(f"struct {name} had {was['size']} bytes and has {now['size']}")
    return lines


def additions(promised, found):
    """A line for each name that is new."""
    def members(kinds):
        return {f"{struct}.{member}" for struct, one in kinds["structs"].items() for member in one["members"]}

    lines = [f"member {name}" for name in sorted(members(found) - members(promised))]
    return lines + [f"{kind} {name}" for kind in found if isinstance(found[kind], dict)
                    for name in found[kind] if name not in promised[kind]]


def is_released(version):
    return f"## {version}, not released" not in (ROOT / "docs/changelog.md").read_text(encoding="utf-8")


def plant(found):
    """[(what, as it would be found)]: a change of each kind, which must be noticed."""
    def changed(*path, value=None):
        other = copy.deepcopy(found)
        at = other
        for key in path[:-1]:
            at = at[key]
        if value is None:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        return path[-1], other

    return [
        changed("functions", "gpur_replay_create"),
        changed("functions", "gpur_run_stop", value="c_int32 (c_void_p)"),
        changed("signatures", "gpur_learner_q_values", value="function gpur_status (double *)"),
        changed("signatures", "gpur_env_plugin_name"),
        changed("signatures", "gpur_log_fn", value="callback void (void *)"),
        changed("constants", "UNIFORM", value=7),
        changed("constants", "MAX_STACK"),
        changed("structs", "gpur_step_input", "members", "reward"),
        changed("structs", "gpur_replay_config", "members", "capacity", value="c_int64 at 16"),
        changed("structs", "gpur_layer", "size", value=found["structs"]["gpur_layer"]["size"] + 8),
        changed("defaults", "gpur_replay_config.n_step", value=3),
        changed("presets", "fast-dqn: batch", value="33"),
        changed("options", "estimator watkins of system 0"),
        *[changed("columns", f"{preset}: {kind} {name}") for preset, kind, name in (
            ("fast-dqn-small", "episode", "return"), ("ga3c-small", "evaluation", "mean_return"))
          if "columns" in found],
        changed("python", "gpureplay.train.main"),
        changed("python", "gpureplay.ReplayBuffer.sample"),
        changed("python", "gpureplay.ReplayBuffer.sample(batch_size at 1)"),
        changed("python", "gpureplay.make_env(required)", value="name, seed"),
    ]


def main():
    found, missing = record(str(Path(sys.argv[1]).resolve()))
    if sys.argv[2:] == ["--write"]:
        assert not missing, f"{missing} cannot be imported"
        RECORD.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        return
    promised = json.loads(RECORD.read_text(encoding="utf-8"))
    found = json.loads(json.dumps(found))
    lines = changes(promised, found, missing)
    assert not lines, f"of {promised['version']} has changed:\n" + textwrap.indent("\n".join(lines), "    ")
    new = additions(promised, found)
    assert not new or is_released(promised["version"]), \
        f"{RECORD.name} lacks what is new; --write records it:\n" + textwrap.indent("\n".join(new), "    ")
    for what, other in plant(found):
        assert len(changes(promised, other, missing)) == 1, f"{what} was changed and is not noticed"
    for (what, other), kind in zip(plant(found), ("functions gpur_replay_create", None, None,
                                                  "signatures gpur_env_plugin_name", None, None, "constants MAX_STACK",
                                                  "member gpur_step_input.reward")):
        assert kind is None or additions(other, found) == [kind], f"{what} is new and is not noticed"
    count = sum(len(promised[kind]) for kind in promised if kind != "version")
    print(f"test_abi: {count} names of {promised['version']} are as they were" +
          "".join(f"; {name} was not looked at" for name in missing))


main()
