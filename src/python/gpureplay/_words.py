# SPDX-License-Identifier: MIT
"""The library's messages name members, constants and functions of C; here they get the names that Python has."""

from __future__ import annotations

import re

from . import _c_api
from ._choices import ACTIVATIONS, CHOICES, FLAGS

# The words of settings that are numbers in C, by the member's name, or by the struct's and the member's.
WORDS: dict[str, dict[int, str]] = {
    **{name: {code: word for word, code in choices.items()} for name, choices in CHOICES.items()
       if name not in ("initial_priorities", "observations")},  # of which messages have other words, or none
    "gpur_ga3c_config.when_full": {_c_api.QUEUE_WAIT: "wait", _c_api.QUEUE_REFUSE: "refuse",
                                   _c_api.QUEUE_DROP_OLDEST: "drop-oldest"},
    "gpur_optimizer_config.kind": {code: word for word, code in CHOICES["optimizer"].items()},
    "gpur_layer.kind": {_c_api.DENSE: "dense", _c_api.CONV: "conv"},
    "activation": {code: word for word, code in ACTIVATIONS.items()},
    "layout": {_c_api.LAYOUT_ROWS: "rows", _c_api.LAYOUT_FRAMES: "frames", _c_api.LAYOUT_LANES: "lanes"},
    "upload": {_c_api.UPLOAD_COPY: "copy", _c_api.UPLOAD_SCATTER: "scatter"},
    "when_full": {_c_api.WHEN_FULL_WAIT: "wait", _c_api.WHEN_FULL_ERROR: "error"},
    "index_source": {_c_api.SOURCE_AUTO: "auto", _c_api.UNIFORM: "uniform",
                     _c_api.UNIFORM_DISTINCT: "uniform_distinct",
                     _c_api.PRIORITIZED_STRATIFIED: "prioritized_stratified",
                     _c_api.PRIORITIZED_INDEPENDENT: "prioritized_independent"},
}
_SWITCHES = ("prioritized", *FLAGS)

# Members whose names differ.
_MEMBERS = {"check_finite": "check_nan", "lambda": "lambda_", "index_source": "the way of drawing", "field_count":
            "the number of fields", "lanes": "num_lanes"}

# Settings of a file whose names differ.
_OF_FILES = {"lanes": "num_lanes", "lane_autoreset": "autoreset"}

# Constants whose words do not follow from their names.
_CONSTANTS = {"EVICT_BY_PRIORITY": 'eviction="priority"', "EVICT_OLDEST": '"oldest"', "BOOL": "bool",
              "UNIFORM_DISTINCT": "distinct=True", "UNIFORM": "neither prioritized nor distinct",
              "PRIORITIZED_STRATIFIED": "prioritized=True", "PRIORITIZED_INDEPENDENT": "prioritized=True",
              "PRIORITIZED_": "prioritized=True", "SOURCE_AUTO": "the default", "LAYOUT_FRAMES": 'layout="frames"',
              "LAYOUT_ROWS": 'layout="rows"', "LAYOUT_LANES": "that of a LaneBuffer",
              "MATH_FP32": 'math="fp32"', "WEIGHTS_ONLINE": "the online weights",
              "WEIGHTS_TARGET": "those of the target network", "RMSPROP_": "an rmsprop", "ESTIMATOR_PENG": '"peng"',
              "QUEUE_WAIT": '"wait"', "FLOAT32": "float32", "UINT8": "uint8", "INT32": "int32", "INT64": "int64"}
_PREFIXES = re.compile(r"^(?:ACT|AUTORESET|CACHE|ESTIMATOR|EXECUTOR|FIRST_PRIORITY|FLUSH|HEAD|INIT|INPUT|LAYOUT|LOG"
                       r"|LOSS|MATH|OBSERVATIONS|PAD|STACK|STEP|TUNER|UPLOAD|WEIGHT_NORM|WHEN_FULL)_(?=.)")

# Functions, and the objects whose methods most of them are.
_FUNCTIONS = {"gpur_policy_create": "Policy", "gpur_policy_load": "`Policy.load`", "gpur_device_open": "Device",
              "gpur_writer_step": "`add`", "gpur_writer_step_ex": "`add`", "gpur_writer_reset": "`reset`",
              "gpur_writer_append_fields": "`extend`", "gpur_replay_add_lanes": "`add`",
              "gpur_replay_reset_lanes": "`reset`",
              "gpur_replay_draw_lanes": "`sample`", "gpur_replay_update_lanes": "`update_priorities`",
              "gpur_replay_get_lane_stats": "`stats`", "gpur_fast_dqn_create": "a Run", "gpur_apex_create": "an Apex",
              "gpur_ga3c_create": "a GA3C", "gpur_offline_create": "train_offline"}
_OBJECTS = {"replay": "ReplayBuffer", "writer": "Writer", "learner": "DQN", "dpg": "DDPG", "policy": "Policy",
            "actor_critic": "ActorCritic", "apex": "Apex", "run": "Run", "fast_dqn": "Run", "ga3c": "GA3C",
            "offline": "Run", "device": "Device"}

# What is left to say better. In Python `prioritized` and `distinct` say how rows are drawn.
_LAST = ((r"\b(\w+) is \1=", r"\1 is "), (r"\b(actor|critic)_optimizer: ", r"\1: "),
         (r'(?:index_source|the way of drawing) is "prioritized_\w+"', "prioritized is True"),
         (r'(?:index_source|the way of drawing) is "uniform_distinct"', "distinct is True"),
         (r'(?:index_source|the way of drawing) is "uniform"', "prioritized is False"),
         (r"(?:index_source|the way of drawing) distinct=True", "distinct is True"),
         (r"index_source the default", "leave out prioritized"),
         (r'("\w+",?(?: or)?) ([A-Z]+) \([\d, ]+\)', lambda found: f'{found[1]} "{found[2].lower()}"'),
         (r"(\bis (?:False|True)\b.*?; it must be) ([01])\b", lambda found: f"{found[1]} {found[2] == '1'}"))

_MEMBER = re.compile(r"\bgpur_\w+?\.([a-z]\w*)((?:\.\w+)*)")
_PART = re.compile(r"\b(?:network|optimizer|returns|actor_optimizer|critic_optimizer)\.(?=[a-z]\w*\b)(?!py)")
_CONSTANT = re.compile(r"\bGPUR_([A-Z0-9_]+)\*?(?: \([\d, ]+\))?")
_FUNCTION = re.compile(rf"\bgpur_({'|'.join(_OBJECTS)})_(\w+)(?:\(\))?")
_NUMBER = re.compile(r"\b(\w+) is (\d+)(?=[;, ]|$)")
_OF_FILE = re.compile(r'(?P<key>[\w.]+) is (?P<theirs>nothing|".*?") in the file; (?P<what>this [\w ]+) has '
                      r'(?P<ours>nothing|".*")$')
_REAL = re.compile(r"^-?\d+\.\d+(e[+-]?\d+)?$")
_DENSE = re.compile(r"^dense (\d+), activation (\d+)(, layer norm)?$")
_CONV = re.compile(r"^convolution (\d+) of (\d+), stride (\d+), padding (-?\d+), activation (\d+)$")


def _word(key: str, number: str) -> str | None:
    """The word for a number of this setting; None: it has none."""
    word = WORDS.get(key, {}).get(int(number))
    if word is not None:
        return f'"{word}"'
    return str(number == "1") if key in _SWITCHES and number in "01" else None


def _constant(found: re.Match[str]) -> str:
    name = found[1]
    return _CONSTANTS.get(name) or f'"{_PREFIXES.sub("", name).lower()}"'


def _function(found: re.Match[str]) -> str:
    return _FUNCTIONS.get(found[0].removesuffix("()")) or f"`{_OBJECTS[found[1]]}.{found[2]}`"


def _of_file(found: re.Match[str]) -> str:
    """A setting that differs between a file and the object that was to load it."""
    owner, _, key = found["key"].rpartition(".")
    values = []
    for value in (found["theirs"], found["ours"]):
        text = value.strip('"')
        dense, conv = _DENSE.match(text), _CONV.match(text)
        if dense:
            norm = ', "layer_norm"' if dense[3] else ""
            value = f"({dense[1]}, {_word('activation', dense[2])}{norm})"
        elif conv:
            value = f"(\"conv\", {', '.join(conv.groups()[:4])}, {_word('activation', conv[5])})"
        elif text.isdigit():
            value = _word(key, text) or text
        elif _REAL.match(text):
            value = f"{float(text):.7g}"
        values.append(value)
    name = f"{owner}.{key}" if owner else key
    name = re.sub(r"(^|\.)layer\.(\d+)$", r"\1trunk[\2]", name)
    name = re.sub(r"^field\.(\d+)$", lambda m: f"field number {int(m[1]) + 1}", _OF_FILES.get(name, name))
    what = found["what"].replace("replay", "buffer")
    if name.isidentifier() and found["ours"] == "nothing":
        return f"{name} is {values[0]} in the file; {what} has no {name}"
    if name.isidentifier() and found["theirs"] == "nothing":
        return f"{name} is not in the file; {what} has {values[1]}"
    return f"{name} is {values[0]} in the file; {what} has {values[1]}"


def in_python(text: str) -> str:
    """The library's message with the names that Python has."""
    text = _OF_FILE.sub(_of_file, text)
    if "initial_priorities is 1, " in text:
        text = text.replace("initial_priorities is 1, ", 'initial_priorities is "td", ')
    has_constant = _CONSTANT.search(text) is not None
    text = _MEMBER.sub(lambda found: _MEMBERS.get(found[1], found[1]) + found[2], text)
    text = _PART.sub("", text)
    if has_constant:
        text = _NUMBER.sub(lambda found: f"{found[1]} is {_word(found[1], found[2]) or found[2]}", text)
    text = _CONSTANT.sub(_constant, text)
    for pattern, words in _LAST:
        text = re.sub(pattern, words, text)
    return _FUNCTION.sub(_function, text)
