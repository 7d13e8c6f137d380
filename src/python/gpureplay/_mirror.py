# SPDX-License-Identifier: MIT
"""The C API in ctypes, and nothing else: structs, constants and the signature of every function.

Needs the standard library alone. The headers under include/gpureplay/ are the documentation; a test holds every struct,
member, constant and function here against them.
"""

import ctypes
import os
from ctypes import c_char_p, c_float, c_int32, c_int64, c_uint64, c_void_p
from typing import Union

from ._structs import *  # noqa: F403 (all of them are names of this module, too)
from ._structs import STRUCTS

PROGRESS_FN = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int64, c_int64)
LOG_FN = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)

# Handles and all other pointers are c_void_p: an int, or None for NULL.
_P, _I32, _I64, _U64, _F32, _TEXT = c_void_p, c_int32, c_int64, c_uint64, c_float, c_char_p
_STATUS = c_int32
FUNCTIONS = {
    "gpur_status_name": (_TEXT, [_STATUS]),
    "gpur_last_error": (_TEXT, []),
    "gpur_version": (_TEXT, []),
    "gpur_build_info": (_TEXT, []),
    "gpur_struct_size": (_I64, [_TEXT]),
    "gpur_device_config_init": (_STATUS, [_P, _U64]),
    "gpur_device_open": (_STATUS, [_TEXT, _P, _P]),
    "gpur_device_close": (None, [_P]),
    "gpur_device_get_info": (_STATUS, [_P, _P]),
    "gpur_device_alloc": (_STATUS, [_P, _I64, _P]),
    "gpur_device_free": (None, [_P, _P]),
    "gpur_device_copy": (_STATUS, [_P, _P, _P, _I64]),
    "gpur_device_sync": (_STATUS, [_P]),
    "gpur_device_wait_stream": (_STATUS, [_P, _P]),
    "gpur_replay_config_init": (_STATUS, [_P, _U64]),
    "gpur_replay_config_preset": (_STATUS, [_P, _TEXT]),
    "gpur_replay_plan_bytes": (_STATUS, [_P, _P]),
    "gpur_replay_create": (_STATUS, [_P, _P, _P]),
    "gpur_replay_destroy": (None, [_P]),
    "gpur_replay_get_field": (_STATUS, [_P, _I32, _P]),
    "gpur_replay_size": (_I64, [_P]),
    "gpur_replay_can_sample": (_I32, [_P]),
    "gpur_replay_sample": (_STATUS, [_P, _I64, _P, _P]),
    "gpur_replay_gather": (_STATUS, [_P, _I64, _P, _P, _P]),
    "gpur_replay_resample": (_STATUS, [_P, _P, _P]),
    "gpur_replay_get_stats": (_STATUS, [_P, _P]),
    "gpur_replay_update_priorities": (_STATUS, [_P, _I64, _P, _P, _P]),
    "gpur_replay_get_priorities": (_STATUS, [_P, _I64, _P, _P]),
    "gpur_replay_set_alpha": (_STATUS, [_P, _F32]),
    "gpur_replay_set_beta": (_STATUS, [_P, _F32]),
    "gpur_replay_get_priority_stats": (_STATUS, [_P, _P]),
    "gpur_replay_check_priorities": (_STATUS, [_P, _P]),
    "gpur_batch_count": (_I64, [_P]),
    "gpur_batch_get_array": (_STATUS, [_P, _TEXT, _P, _P]),
    "gpur_batch_get_view": (_STATUS, [_P, _P]),
    "gpur_batch_sync": (_STATUS, [_P]),
    "gpur_batch_wait": (_STATUS, [_P, _P]),
    "gpur_batch_read": (_STATUS, [_P, _TEXT, _P, _I64]),
    "gpur_batch_to_dlpack": (_STATUS, [_P, _TEXT, _I32, _P]),
    "gpur_batch_retain": (None, [_P]),
    "gpur_batch_release": (None, [_P]),
    "gpur_writer_config_init": (_STATUS, [_P, _U64]),
    "gpur_writer_open": (_STATUS, [_P, _P, _P]),
    "gpur_writer_create": (_STATUS, [_P, _I32, _P]),
    "gpur_writer_destroy": (None, [_P]),
    "gpur_writer_reset": (_STATUS, [_P, _I32, _P]),
    "gpur_writer_get_episode": (_STATUS, [_P, _I32, _P, _P]),
    "gpur_writer_set_ended": (_STATUS, [_P, _P]),
    "gpur_writer_step_with": (_STATUS, [_P, _P]),
    "gpur_writer_step": (_STATUS, [_P, _P, _P, _P, _P, _P]),
    "gpur_writer_append": (_STATUS, [_P, _I64, _P, _P]),
    "gpur_writer_append_fields": (_STATUS, [_P, _I64, _P, _P, _P]),
    "gpur_writer_try_append_fields": (_STATUS, [_P, _I64, _P]),
    "gpur_writer_flush": (_STATUS, [_P]),
    "gpur_schedule_at": (_F32, [_P, _I64]),
    "gpur_learner_config_init": (_STATUS, [_P, _U64]),
    "gpur_learner_config_preset": (_STATUS, [_P, _TEXT]),
    "gpur_learner_create": (_STATUS, [_P, _P, _P]),
    "gpur_learner_destroy": (None, [_P]),
    "gpur_learner_train": (_STATUS, [_P, _I64]),
    "gpur_learner_train_on": (_STATUS, [_P, _P]),
    "gpur_learner_get_rows": (_STATUS, [_P, _P]),
    "gpur_learner_train_rows": (_STATUS, [_P, _P]),
    "gpur_learner_return_rows": (_STATUS, [_P, _P]),
    "gpur_learner_sync": (_STATUS, [_P]),
    "gpur_learner_act": (_STATUS, [_P, _I64, _P, _F32, _P, _P]),
    "gpur_learner_q_values": (_STATUS, [_P, _I64, _P, _P, _P]),
    "gpur_learner_epsilon": (_F32, [_P, _I64]),
    "gpur_learner_get_stats": (_STATUS, [_P, _P]),
    "gpur_learner_weight_count": (_I32, [_P]),
    "gpur_learner_weight": (_STATUS, [_P, _I32, _P]),
    "gpur_learner_read_weights": (_STATUS, [_P, _I32, _TEXT, _P, _I64]),
    "gpur_checkpoint_options_init": (_STATUS, [_P, _U64]),
    "gpur_checkpoint_get_info": (_STATUS, [_TEXT, _P]),
    "gpur_replay_save": (_STATUS, [_P, _TEXT, _P]),
    "gpur_replay_load": (_STATUS, [_P, _TEXT, _P]),
    "gpur_learner_save": (_STATUS, [_P, _TEXT, _P]),
    "gpur_learner_load": (_STATUS, [_P, _TEXT, _P]),
    "gpur_learner_save_weights": (_STATUS, [_P, _TEXT, _P]),
    "gpur_learner_load_weights": (_STATUS, [_P, _TEXT, _P]),
    "gpur_learner_write_weights": (_STATUS, [_P, _I32, _TEXT, _P, _I64]),
}


def load(path: Union[str, os.PathLike[str]]) -> ctypes.CDLL:
    """The shared library, every function with its signature. RuntimeError when it is another version's."""
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise RuntimeError(f"{path} has no {name}; it is of another version than this package") from None
        function.restype, function.argtypes = result, arguments
    for struct in STRUCTS:
        theirs, ours = library.gpur_struct_size(struct.c_name.encode()), ctypes.sizeof(struct)
        if theirs != ours:
            raise RuntimeError(f"{struct.c_name} has {theirs} bytes in {path} and {ours} in this package; "
                               "they are of different versions")
    return library
