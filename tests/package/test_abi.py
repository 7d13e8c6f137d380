# SPDX-License-Identifier: MIT
"""What a release has promised is still there: functions, constants, structs, defaults, presets, options of training and
the Python package's names, against the record of that release. What is new passes; what has changed or is gone fails,
with its name.

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
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_name("abi.json")
# gpureplay.sb3 and gpureplay.fast_td3 have the names of the classes whose place they take, which their own tests call.
MODULES = ["gpureplay", "gpureplay.compare", "gpureplay.data", "gpureplay.envs", "gpureplay.jax", "gpureplay.play",
           "gpureplay.plot", "gpureplay.ray", "gpureplay.tensorboard"]
SYSTEMS, MOST = 8, 100  # more than there are kinds of presets; and presets, or options of one

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
    return {"version": package.__version__, "functions": functions(c_api), "constants": constants(c_api),
            "structs": structs(c_api), "defaults": defaults(package.lib, c_api),
            "presets": presets(package.lib), "options": options(package.lib), "python": names}, missing


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

    for kind in ("functions", "constants", "defaults", "presets", "options", "python"):
        for name, was in promised[kind].items():
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
        changed("constants", "UNIFORM", value=7),
        changed("constants", "MAX_STACK"),
        changed("structs", "gpur_step_input", "members", "reward"),
        changed("structs", "gpur_replay_config", "members", "capacity", value="c_int64 at 16"),
        changed("structs", "gpur_layer", "size", value=found["structs"]["gpur_layer"]["size"] + 8),
        changed("defaults", "gpur_replay_config.n_step", value=3),
        changed("presets", "fast-dqn: batch", value="33"),
        changed("options", "estimator watkins of system 0"),
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
    for what, other in plant(found):
        assert len(changes(promised, other, missing)) == 1, f"{what} was changed and is not noticed"
    count = sum(len(promised[kind]) for kind in promised if kind != "version")
    print(f"test_abi: {count} names of {promised['version']} are as they were" +
          "".join(f"; {name} was not looked at" for name in missing))


main()
