# SPDX-License-Identifier: MIT
"""What the Python package repeats of the public headers is made of them: `_c_api.py` with every constant, struct,
member and function, and for type checkers and editors a stub of the named tuples and one of the settings, which come
from the structs. The shared library loads with them, which compares the size of each struct with the C compiler's.

usage: test_ctypes.py libgpureplay.so
       test_ctypes.py --write          writes the files anew, after a change of a header
"""

import ast
import importlib
import json
import keyword
import re
import sys
import textwrap
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src/python/gpureplay"
sys.dont_write_bytecode = True  # beside the sources
sys.path.insert(0, str(ROOT / "docs/reference"))
headers = importlib.import_module("headers")
COMMAND = "python3 tests/package/test_ctypes.py --write"
PLAIN = {
    "void": "None", "char": "c_char", "float": "c_float", "double": "c_double", "uint8_t": "c_uint8",
    "int32_t": "c_int32", "int64_t": "c_int64", "uint64_t": "c_uint64", "size_t": "c_size_t", "gpur_status": "c_int32",
}
CAPITALS = {"dqn": "DQN", "dpg": "DPG", "sac": "SAC", "ga3c": "GA3C"}  # of names of classes

# The headers.


def header_constants(declared):
    """{"OK": 0, ...} of every enumerator."""
    found = {}
    for name, value in (member[:2] for one in declared if one.kind == "enum" for member in one.members):
        assert name not in found, name
        found[name.removeprefix("GPUR_")] = value
    return found


def class_name(name):
    """ "ReplayConfig" of "gpur_replay_config", and "GA3CConfigWhenFull" of "gpur_ga3c_config.when_full"."""
    return "".join(CAPITALS.get(word, word.capitalize()) for word in re.split("[._]", name.removeprefix("gpur_")))


def ctypes_type(declared):
    """The ctypes type of a C type without its array bounds: text, any other pointer, a number, or a struct."""
    words = declared.replace("*", " * ").split()
    if "*" in words or words[-1].endswith("_fn"):
        return "c_char_p" if words == ["const", "char", "*"] else "c_void_p"
    (name,) = [word for word in words if word != "const"]
    return PLAIN[name] if name in PLAIN else class_name(name)


def argument_types(arguments):
    """Of "int32_t a, void *b, int32_t c[4], int (*d)(void *e)", where the last two are pointers, too."""
    arguments = re.sub(r"\w+ \(\*(\w+)\)\([^()]*\)", r"void *\1", arguments)
    parts = [re.sub(r"(\w+)\[\w*\]", r"*\1", part) for part in arguments.split(",") if part.strip() != "void"]
    return ", ".join(ctypes_type(re.sub(r"\w+\s*$", "", part)) for part in parts)


def function_type(result, arguments):
    return f"CFUNCTYPE({', '.join(filter(None, (ctypes_type(result), argument_types(arguments))))})"


def members_of(declaration):
    """[(name, type)] of "float low, high", "int32_t shape[6]" or "void (*close)(void *env)"."""
    if function := re.fullmatch(r"([\w ]+[ *]+)\(\*(\w+)\)\(([^()]*)\)", declaration):
        result, name, arguments = function.groups()
        return [(name, function_type(result, arguments))]
    base, names = re.fullmatch(r"((?:const )?\w+) (.*)", declaration).groups()
    found = []
    for part in names.split(","):
        pointer, name, bound = re.fullmatch(r"(.*?)(\w+)(?:\[(\w+)\])?", part.strip()).groups()
        # Python reads the fields of a config as an array; other pointers are numbers.
        kind = "POINTER(Field)" if (base, pointer) == ("const gpur_field", "*") else ctypes_type(base + pointer)
        found.append((name, kind if bound is None else f"{kind} * {bound.removeprefix('GPUR_')}"))
    return found


def header_structs(declared):
    """{"gpur_field": [("name", type), ...], ...} of every struct with members, in order, after those that it has."""
    found = {one.name: [member for declaration, _ in one.members for member in members_of(declaration)]
             for one in declared if one.kind == "struct"}
    classes, ordered = {class_name(name): name for name in found}, {}

    def add(name):
        for used in re.findall(r"\w+", " ".join(kind for _, kind in found[name])):
            if used in classes:
                add(classes[used])
        ordered.setdefault(name, found[name])

    for name in found:
        add(name)
    return ordered


def header_functions(declared):
    """{"gpur_version": (result, arguments)}."""
    return {one.name: (ctypes_type(one.result), argument_types(one.arguments))
            for one in declared if one.kind == "function"}


# The files.

C_API = f'''\
# SPDX-License-Identifier: MIT
# Written by {COMMAND}
"""The C API in ctypes, and nothing else: constants, structs and the signature of every function.

Needs the standard library alone. The headers under include/gpureplay/ are the documentation, and this file is made of
them. Handles and all other pointers are c_void_p: an int, or None for NULL. A status is an int32.
"""

from ctypes import (CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint8,
                    c_uint64, c_void_p)
from typing import Any

from ._struct import Sized, Struct
'''


def filled(line):
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.fill(line, 120, subsequent_indent=indent, break_on_hyphens=False)


def struct_lines(name, members):
    base = "Sized" if members[0][0] == "size" else "Struct"
    return ["", "", f"class {class_name(name)}({base}):", f'    c_name = "{name}"', "    _fields_ = [",
            *(filled(f'        ("{member}", {kind}),') for member, kind in members), "    ]"]


def c_api_text():
    declared = headers.declarations()
    structs, functions = header_structs(declared), header_functions(declared)
    lines = [C_API, *(f"{name} = {value}" for name, value in header_constants(declared).items())]
    lines += ["", *(f"{one.name.removeprefix('gpur_').upper()} = {function_type(one.result, one.arguments)}"
                    for one in declared if one.kind == "callback")]
    for name, members in structs.items():
        lines += struct_lines(name, members)
    lines += ["", "", "STRUCTS: list[type[Struct]] = [", filled(f"    {', '.join(map(class_name, structs))},"), "]"]
    lines += ["FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {  # result, arguments",
              *(filled(f'    "{name}": ({result}, [{arguments}]),')
                for name, (result, arguments) in functions.items()), "}"]
    return "\n".join(lines) + "\n"


def bare(name):
    """A module of the package alone, without the package around it: it needs the standard library only."""
    if "gpureplay_bare" not in sys.modules:
        sys.modules["gpureplay_bare"] = package = types.ModuleType("gpureplay_bare")
        package.__path__ = [str(PACKAGE)]
    return importlib.import_module(f"gpureplay_bare.{name}")


def class_lines(title, members):
    return ["", f"class {title}:", *([f"    {member}: {kind}" for member, kind in members.items()] or ["    pass"])]


def tuples_text():
    """The stub of the named tuples, for type checkers and editors."""
    tuples = [one for one in vars(bare("_tuples")).values() if isinstance(one, type) and issubclass(one, tuple)]
    lines = ["# SPDX-License-Identifier: MIT", f"# Written by {COMMAND}", "from typing import NamedTuple", "",
             "from . import _learner, _run"]
    for one in tuples:
        lines += class_lines(f"{one.__name__}(NamedTuple)", one.__annotations__)
    return "\n".join(lines) + "\n"


SETTINGS_STUB = f'''\
# SPDX-License-Identifier: MIT
# Written by {COMMAND}
"""The settings of constructors, for type checkers and editors. There is no such module when a program runs."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Union

from ._buffer import ReplayBuffer
from ._device import Device, TorchDevice
from ._envs import EnvOptions
from ._hindsight import Hindsight

Layer = Union[int, Sequence[Any], Mapping[str, Any]]
Schedule = Union[float, Sequence[float]]
Prioritized = Union[bool, Literal["independent"]]
'''
DRAW = {"prioritized": "Prioritized | None", "distinct": "bool", "demonstrations": "ReplayBuffer | None"}
# Of each class the config, what it derives from, what it has beside the config's settings, and what follows each type.
SETTINGS = {
    "NetworkSettings": ("NetworkConfig", "TypedDict, ", {}, ""),
    "OptimizerSettings": ("OptimizerConfig", "TypedDict, ", {}, ""),
    "NetworkAndOptimizer": (None, "NetworkSettings, OptimizerSettings, ", {}, ""),
    "ReturnsSettings": ("ReturnsConfig", "TypedDict, ", {}, ""),
    "DQNSettings": ("DQNConfig", "NetworkAndOptimizer, ReturnsSettings, ", DRAW, ""),
    "DDPGSettings": ("DPGConfig", "TypedDict, ", {**dict.fromkeys(("actor", "critic"), "NetworkAndOptimizer"), **DRAW},
                     ""),
    "SACSettings": ("SACConfig", "TypedDict, ",
                    {**dict.fromkeys(("actor", "critic"), "NetworkAndOptimizer"),
                     "temperature_optimizer": "OptimizerSettings", **DRAW}, ""),
    "ActorCriticSettings": ("ActorCriticConfig", "NetworkAndOptimizer, ", {}, ""),
    "PolicySettings": ("PolicyConfig", "NetworkSettings, ", {}, ""),
    "PolicyArguments": (None, "PolicySettings, ", {"device": "str | TorchDevice | Device", "check_nan": "bool"}, ""),
    "CommonRunSettings": ("RunConfig", "TypedDict, ", {}, " | None"),
    "RunSettings": ("FastDQNConfig", "CommonRunSettings, ", {}, " | None"),
    "ApexSettings": ("ApexConfig", "CommonRunSettings, ", {"processes": "bool | None",
                                                           "epsilons": "Sequence[float] | None",
                                                           "folder": "str | os.PathLike[str] | None"}, " | None"),
    "GA3CSettings": ("GA3CConfig", "CommonRunSettings, ", {}, " | None"),
}


def setting_type(struct, name):
    """The type that Python takes for a setting which is the member of a struct."""
    choices = bare("_choices")
    for choice in (f"{struct.c_name}.{name}", name):
        if choice in choices.CHOICES:
            return class_name(choice)
    if name == "trunk":
        return "Sequence[Layer]"
    kind = dict(struct._fields_)[choices.member_of(name)]
    if not hasattr(kind, "_type_"):
        return "Schedule"
    return "bool" if name in choices.FLAGS else "float" if kind._type_ in "fd" else "int"


def definition_in(body, kind, name):
    (found,) = [one for one in body if isinstance(one, kind) and one.name == name]
    return found


def keywords_in(module, function, owner=None):
    """The keywords of a function, or of a method, with their types."""
    body = ast.parse((PACKAGE / module).read_text(encoding="utf-8")).body
    body = body if owner is None else definition_in(body, ast.ClassDef, owner).body
    arguments = definition_in(body, ast.FunctionDef, function).args.kwonlyargs
    return {one.arg: ast.unparse(one.annotation) for one in arguments}


# Of each class the systems whose options of training it has.
TRAININGS = {
    "DQNTraining": {"FAST_DQN"}, "ApexTraining": {"APEX_DQN"}, "DDPGTraining": {"APEX_DPG", "DPG"},
    "GA3CTraining": {"GA3C", "A3C"}, "OfflineTraining": {"OFFLINE_DQN", "OFFLINE_DPG", "OFFLINE_SAC"},
    "TrainOptions": {"FAST_DQN", "DPG", "SAC", "APEX_DQN", "APEX_DPG", "GA3C", "A3C", "OFFLINE_DQN", "OFFLINE_DPG",
                     "OFFLINE_SAC"},
}
# Whole numbers may be written as 1e6.
OPTION_TYPES = {"TEXT": "str", "INT64": "int | float", "INT32": "int", "SWITCH": "bool", "FLOAT": "float",
                "DOUBLE": "float"}
OTHER_TYPES = {"epsilons": "str | Sequence[float]", "data": "str | os.PathLike[str] | ReplayBuffer",
               **dict.fromkeys(("folder", "demonstrations"), "str | os.PathLike[str]")}


def systems_of(text, sets):
    return set.union(*(sets[name.strip()] for name in text.split("|")))


def options_of(systems):
    """The options of trainings with their types, of the table in C, but for those that `train` has as arguments."""
    text = (ROOT / "src/train/options.h").read_text(encoding="utf-8")
    sets = {name: {name} for name in TRAININGS["TrainOptions"]}
    for name, parts in re.findall(r"GPUR_IN_(\w+) = (GPUR_IN_[^,]*),", text):
        sets[name] = systems_of(parts.replace("GPUR_IN_", ""), sets)
    text, found = (ROOT / "src/train/options.c").read_text(encoding="utf-8"), {}
    rows = re.findall(r'^    ROW\("(\w+)", "([^"]*)",\s*([\w |]+),\s*(\w+),', text, flags=re.M)
    assert len(rows) == text.count("    ROW("), "a row that this does not read"
    for name, value, of, kind in rows:
        words = f"Literal[{', '.join(map(json.dumps, value.split('|')))}]"
        called = name + "_" * keyword.iskeyword(name)
        is_argument = name in ("env", "preset") or called in keywords_in("_train.py", "train")
        if not is_argument and systems_of(of, sets) & systems:
            found[called] = f"{OTHER_TYPES.get(name) or OPTION_TYPES.get(kind, words)} | None"
    return found


def settings_text():
    """The stub of the settings that constructors take by name."""
    choices = bare("_choices")
    lines = [SETTINGS_STUB, *(filled(f"{class_name(name)} = Literal[{', '.join(map(json.dumps, words))}]")
                              for name, words in choices.CHOICES.items())]
    for name, (config, bases, members, after) in SETTINGS.items():
        struct = config and getattr(bare("_c_api"), config)
        own = {one: setting_type(struct, one) + after for one in choices.settings_in(struct)} if struct else {}
        own.pop("num_actions", None)  # an argument
        lines += class_lines(f"{name}({bases}total=False)", {**own, **members})
    for name, others in (("BufferOptions", ("num_envs", "autoreset")), ("PlanSettings", ("preset",))):
        members = keywords_in("_buffer.py", "__init__", "ReplayBuffer")
        lines += class_lines(f"{name}(TypedDict, total=False)",
                             {one: kind for one, kind in members.items() if one not in others})
    lines += class_lines("TrainArguments(TypedDict, total=False)", keywords_in("_train.py", "train"))
    for name, systems in TRAININGS.items():
        base, options = "TypedDict" if name == "TrainOptions" else "TrainArguments", options_of(systems)
        if name == "OfflineTraining":
            del options["data"]  # an argument of train_offline
        lines += map(filled, class_lines(f"{name}({base}, total=False)", options))
    return "\n".join(lines) + "\n"


# The members of settings in C, by which config.json is written.

MEMBERS = f'''\
/* SPDX-License-Identifier: MIT */
/* Written by {COMMAND} */
/* The members of settings' structs. */
#include "train/members.h"

#include "gpureplay.h"
#include "gpureplay/run.h"
'''
WITH_MEMBERS = ("replay", "dqn", "dpg", "sac", "actor_critic", "run", "fast_dqn", "apex", "ga3c")
KINDS = {"c_int32": "INT32", "c_int64": "INT64", "c_uint64": "INT64", "c_float": "FLOAT", "c_double": "DOUBLE",
         "Field": "FIELD", "Layer * MAX_LAYERS": "TRUNK"}
NO_MEMBERS = ("size", "field_count", "trunk_count", "epsilon_count", "lanes", "lane_autoreset",
              "demonstration_ratio")


def words_of(struct, member):
    """The names of the values 0, 1, ... of a member, in C; "": it has none."""
    words = bare("_words").WORDS
    found = words.get(f"{struct}.{member}") or words.get(member) or \
        ({0: "max", 1: "td"} if member == "initial_priorities" else {})
    if not found:
        return ""
    names = ", ".join(f'"{found[code]}"' if code in found else "NULL" for code in range(max(found) + 1))
    return f".words = (const char *const[]){{{names}}}, .word_count = {max(found) + 1}"


def members_text():
    """The tables of structs, after those of the structs in them."""
    structs = header_structs(headers.declarations())
    names = {class_name(name): name for name in structs}
    made = {}

    def row(struct, member, kind):
        parts = [f'.name = "{member}"', f".kind = GPUR_MEMBER_{KINDS.get(kind, 'STRUCT')}",
                 f".at = offsetof({struct}, {member})"]
        of = names.get(kind.split(" ")[0])
        if of and KINDS.get(kind) != "FIELD":
            add(of)
            parts.append(f".of = {of}_members")
        return "    {" + ", ".join(parts + [word for word in (words_of(struct, member),) if word]) + "},"

    def add(struct):
        if struct in made:
            return
        rows = [row(struct, member, kind) for member, kind in structs[struct]
                if (kind in KINDS or names.get(kind) and kind != "EnvInfo") and member not in NO_MEMBERS
                and not member.startswith("reserved")]
        is_public = struct.removeprefix("gpur_").removesuffix("_config") in WITH_MEMBERS
        made[struct] = ["", f"{'' if is_public else 'static '}const gpur_member {struct}_members[] = {{",
                        *map(filled, rows), "    {.name = NULL}};"]

    for name in WITH_MEMBERS:
        add(f"gpur_{name}_config")
    return "\n".join([MEMBERS.rstrip(), *(line for lines in made.values() for line in lines)]) + "\n"


FILES = {PACKAGE / "_c_api.py": c_api_text, PACKAGE / "_tuples.pyi": tuples_text,
         PACKAGE / "_settings.pyi": settings_text,
         ROOT / "src/train/members.c": members_text}  # each is made with those before it


def write():
    for path, text in FILES.items():
        path.write_text(text(), encoding="utf-8")


def main():
    for path, text in FILES.items():
        found = path.read_text(encoding="utf-8")
        assert found == text(), f"{path.name} is not what the headers say; run {COMMAND}"
    bare("_load").load(sys.argv[1])
    names = ", ".join(path.name for path in FILES)
    print(f"test_ctypes: {names} are those of the headers, and the library loads with them")


write() if sys.argv[1:] == ["--write"] else main()
