# SPDX-License-Identifier: MIT
"""An actor's process, as `gpureplay.Apex` starts it: main with its settings as the first argument. Its connection to
the learner is descriptor 3."""

from __future__ import annotations

import ctypes
import json
import sys

from . import _c_api
from ._config import apex_configs, apex_networks, make_spec, policy_config, set_envs
from ._envs import open_envs
from ._library import lib
from ._python_envs import PythonEnvs
from ._schema import fields_of

_CONNECTION = 3


def main() -> int:
    given = json.loads(sys.argv[1])
    buffer = given["buffer"]
    fields = fields_of({name: tuple(field) for name, field in buffer.pop("fields").items()})
    spec = make_spec(fields, buffer.pop("capacity"), None, buffer)
    networks = [policy_config(None, settings).network for settings in given["networks"]]
    envs = open_envs(given["env"], options=given["env_options"])
    if isinstance(envs, PythonEnvs):
        envs.tells_place = True
    envs.open()
    both = apex_networks(networks)
    common = apex_configs({}).common
    set_envs(common, envs.type, None, envs.options)
    status = lib.gpur_apex_serve(_CONNECTION, *map(ctypes.addressof, (common, spec.config, both)), 0)
    envs.close()
    return 0 if status in (_c_api.OK, _c_api.INTERRUPTED) else 1  # the learner has got the message
