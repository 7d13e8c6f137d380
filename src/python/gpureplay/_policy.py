# SPDX-License-Identifier: MIT
"""Policies: acting without a buffer and without training."""

from __future__ import annotations

import ctypes
import functools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np

from . import _c_api
from ._config import (network_settings, policy_config, refuse_document, refuse_doubtful_layout, settings_of,
                      settings_text)
from ._device import Device, TorchDevice, as_device
from ._flatten import Translation, reading_of, translation_of
from ._handle import Handle, Progress, call_with_file, note_library_threads
from ._inputs import address_of, column, flag, integer, read_observations
from ._learner import DQN, Learner
from ._library import FileError, InvalidArgument, in_c, lib
from ._masks import bits_of_rows
from ._schema import NUMPY, Field, shape_of, to_c
from ._struct import read_tuple
from ._tuples import PolicyStats

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._actor_critic import ActorCritic
    from ._ddpg import ActionLearner
    from ._settings import PolicyArguments, PolicySettings

FLOAT32, INT32, _UINT32, _UINT64 = (np.dtype(kind) for kind in (np.float32, np.int32, np.uint32, np.uint64))
_FILES_OF_RUNS = ("learner.safetensors", "best.safetensors")
BytesLike = Union[bytes, bytearray, memoryview]


class Acted(NamedTuple):
    """What `Policy.act_with_q` gives."""

    actions: np.ndarray  # (count,) int32
    q_values: np.ndarray  # (count, num_actions) float32
    version: int  # of the weights that were used for all rows


class ActedByPolicy(NamedTuple):
    """What `Policy.act_with_values` gives."""

    actions: np.ndarray  # (count,) int32
    probabilities: np.ndarray  # (count, num_actions) float32
    values: np.ndarray  # (count,) float32
    version: int  # of the weights that were used for all rows


def _environment_of_run(path: Path) -> dict[str, Any] | None:
    """What config.json says of the environment of the run of which this is the folder, its checkpoint, or the file of
    the learner or of the best weights in one of them. None: there is no config.json, or beside the file one of another
    program. FileError: the folder has one of another program, or it is damaged."""
    folder = path if path.is_dir() else path.parent if path.name in _FILES_OF_RUNS else None
    if folder is None:
        return None
    folder = Path(os.path.abspath(folder))
    folders = (folder, folder.parent) if folder.name == "checkpoint" else (folder,)
    others = []
    for file in (one / "config.json" for one in folders):
        if not file.is_file():
            continue
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            config = None
        found = config.get("environment") if isinstance(config, dict) else None
        if isinstance(found, dict):
            return found
        others.append(file)
    if others and path.is_dir():
        raise FileError(f"{others[0]} is not that of a run: it does not say what the environment is; open the file "
                        "learner.safetensors in place of the folder, and give it what the network reads")
    return None


class Policy(Handle):
    """A network that acts, without a buffer and without training. Its weights come from a learner (`pull`), from a file
    (`load`), or from another process (`set_weights`). Until then they are the initial weights of a learner with this
    network and seed.

    obs: an observation: a space of Gymnasium, or (shape, dtype) with the dtype float32 or uint8. Those of Discrete,
        MultiDiscrete, MultiBinary, a Box of integers, and a Tuple or Dict are flattened, as `ReplayBuffer` does it with
        flatten=True.
    num_actions: the number of actions. None: the preset's.
    preset: the name of a preset of `DQN`, whose network is taken, or None for the defaults.
    device: "auto", "cpu", "cuda:N", a torch.device, or an open `Device`. To pull weights from a learner it must be the
        `device` of the learner's buffer: `Policy.for_learner` sees to that.
    max_batch: the most observations of one call; default 64. streams: how many calls run at the same time, in as many
        threads, over one set of weights; default 1.
    seed: the seed of the actions that are drawn and of the initial weights; default 0. math: "fp32", "tf32" or "bf16"
        (on CUDA).
    check_nan: observations in host memory that have NaN or infinity are refused. False: they are taken.
    settings: those of the network, as for `DQN`: trunk, head, hidden, hidden_activation, init, init_scale, input_scale,
        input_shift, input_layout. And policy_floor (include/gpureplay/policy.h).

    Any number of threads may call. Calls that have begun finish with the weights that they began with.
    """

    _kind = "policy"
    _translation = Translation()  # of the environment that it acts in

    def __init__(self, obs: Any, num_actions: int | None = None, preset: str | None = None, *,
                 device: str | TorchDevice | Device = "auto", check_nan: bool = True,
                 **settings: Unpack[PolicySettings]):
        refuse_document(settings)
        given: dict[str, Any] = {**settings}
        if num_actions is not None:
            given["num_actions"] = integer("num_actions", num_actions)
        elif preset is None:
            raise InvalidArgument("num_actions is None; it must be the number of actions, or there must be a preset "
                                  "that has it")
        self._config, (self._obs, flattener) = policy_config(preset, given), reading_of(obs)
        self._translation = Translation(flattener)
        refuse_doubtful_layout(self._config.network, self._obs)
        self._config.obs = to_c([self._obs])[0]
        self._config.obs.name = None  # which the library does not read; Python's bytes are freed
        self.check_nan, self.device = flag("check_nan", check_nan), as_device(device)
        self._num_actions: int = self._config.network.num_actions
        note_library_threads()
        create = functools.partial(self.device._call, lib.gpur_policy_create, ctypes.addressof(self._config))
        super().__init__(create, lib.gpur_policy_destroy)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, device: str | TorchDevice | Device = "auto", check_nan: bool = True,
             **options: Any) -> Policy:
        """A policy from a file alone, which describes its network: of `DQN.save`, `DDPG.save` and `SAC.save` (the
        actor), `ActorCritic.save`, `save_weights` or `Policy.save`; or from the folder of a run (`train(out=)`), of
        whose learners it takes the one after the most train steps.

        From the folder of a run, or from learner.safetensors or best.safetensors in it or in its checkpoint, the policy
        takes observations as the environment gives them, and gives the actions that it takes: config.json of the run
        says what these are. From any other file, and from one beside a config.json of another program, it takes what
        the network reads, which of discrete and composed spaces are flattened observations, and its actions count from
        0, or are vectors of numbers of -1 to 1.

        options: max_batch, streams, seed, math, as for the constructor.

        FileError: there is no such file, or the folder's config.json is not that of a run; or the file does not
        describe its network: it is of another program, or of this one before files did. Then make the policy with the
        settings of its network, and `load` the file."""
        unknown = options.keys() - {"max_batch", "streams", "seed", "math"}
        if unknown:
            raise TypeError(f"{sorted(unknown)[0]!r} is no option of Policy.open, which reads the network from the "
                            "file; they are max_batch, streams, seed and math")
        policy = cls.__new__(cls)
        policy.check_nan, policy.device = flag("check_nan", check_nan), as_device(device)
        config, encoded = policy_config(None, options), in_c("path", path)
        environment = _environment_of_run(Path(os.fsdecode(path)))
        note_library_threads()
        create = functools.partial(policy.device._call, lib.gpur_policy_open, encoded,
                                   ctypes.addressof(config))
        Handle.__init__(policy, create, lib.gpur_policy_destroy)
        policy._call(lib.gpur_policy_get_config, ctypes.addressof(config))
        policy._config, policy._num_actions = config, config.network.num_actions
        policy._obs = Field("obs", shape_of(config.obs), NUMPY[config.obs.dtype])
        if environment is not None:
            policy._translation = translation_of(environment)
        return policy

    @classmethod
    def for_learner(cls, agent: DQN | ActionLearner | ActorCritic, **options: Unpack[PolicyArguments]) -> Policy:
        """A policy with the network, the seed, the device and the online weights of a learner; of a `DDPG`
        or `SAC` those of its actor. `options` are other arguments of the constructor."""
        source: Any = getattr(agent, "_buffer", agent)  # that has the device
        config = agent.config
        shared = {"seed": config["seed"], "math": config["math"], "device": source.device,
                  "policy_floor": config.get("policy_floor", 0.0), "check_nan": source.check_nan,
                  **network_settings(config.get("actor", config))}
        policy = cls(agent._obs[1:], **{**shared, **options})
        policy._translation = agent._translation
        policy.pull(agent)
        return policy

    # Acting.

    def act(self, obs: Any, epsilon: Any = 0.0, lanes: Any = None, steps: Any = None, *, greedy: bool = False,
            mask: Any = None, stream: Any = None) -> np.ndarray:
        """Actions, (count,) int32, for observations (count, ...) in host or device memory: with probability epsilon a
        random action, else argmax Q. With head "softmax_value" an action is drawn from the probabilities, or with
        `greedy` the most probable one. One observation without the first axis is accepted, too.

        epsilon: a number, or (count,) of them.
        lanes, steps: (count,) integers, or one for all: the number of each row's environment, and of that environment's
            step. A random action is a pure function of the seed and these two, whatever the calls and threads. lanes
            None: 0, 1, 2, ... steps None: the number of earlier calls, so that each draws new actions.
        mask: (count, num_actions) bools, or 0 and 1: the allowed actions, to which all actions keep. None: all are.
        stream: for observations in device memory, the stream that made them, as for `ReplayBuffer.extend`."""
        return self._run(obs, stream, (epsilon, lanes, steps), greedy, "", mask=mask)[0]

    def act_with_q(self, obs: Any, epsilon: Any = 0.0, lanes: Any = None, steps: Any = None, *,
                   stream: Any = None) -> Acted:
        """Like `act`, with the Q values and the version of the weights, from one forward pass."""
        actions, q, _, version = self._run(obs, stream, (epsilon, lanes, steps), False, "q")
        return Acted(actions, q, version)

    def act_with_values(self, obs: Any, epsilon: Any = 0.0, lanes: Any = None, steps: Any = None, *,
                        greedy: bool = False, stream: Any = None) -> ActedByPolicy:
        """Like `act` with head "softmax_value", with the probabilities, the values and the version of the weights."""
        return ActedByPolicy(*self._run(obs, stream, (epsilon, lanes, steps), greedy, "probabilities"))

    def act_vectors(self, obs: Any, sigma: Any = 0.0, lanes: Any = None, steps: Any = None, *, greedy: bool = False,
                    stream: Any = None) -> np.ndarray:
        """Actions, (count, num_actions) float32 in -1 to 1. With head "tanh_action": mu(obs) plus Gaussian noise of the
        standard deviation `sigma` in each component, clipped. With "squashed_gaussian": drawn from the distribution, or
        with `greedy` tanh of its mean. A policy of a run (`open` of its folder, or of its
        result's agent) scales them then to the environment's bounds and shape; no other does, and
        gymnasium.wrappers.RescaleAction(env, -1, 1) makes an environment that takes them. sigma is a number, or
        (count,) of them; 0: no noise. The other arguments are as for `act`, and noise and draws follow from them as
        random actions do."""
        found = self._run(obs, stream, (sigma, lanes, steps), greedy, "action_vectors", wants_actions=False)[1]
        return self._translation.vectors(found)

    def q_values(self, obs: Any, *, stream: Any = None) -> np.ndarray:
        """The Q value of every action: (count, num_actions) float32."""
        return self._run(obs, stream, (0.0, None, None), False, "q", wants_actions=False)[1]

    def _run(self, obs: Any, stream: Any, exploration: tuple[Any, Any, Any], greedy: bool, numbers: str,
             wants_actions: bool = True, mask: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Actions, what `numbers` names of each action ("q", "probabilities", "action_vectors" or ""), values and
        version. The first of the exploration is epsilon, or sigma."""
        obs = self._translation.read(obs)
        held, address, count, stream = read_observations(self._obs, obs, self.device._if_cuda, stream, self.check_nan)
        noise, lanes, steps = exploration
        noise_name = "sigma" if numbers == "action_vectors" else "epsilon"
        is_zero = isinstance(noise, float) and noise == 0.0
        rows = (column(noise_name, None if is_zero else noise, count, FLOAT32),
                column("lanes", lanes, count, _UINT32), column("steps", steps, count, _UINT64))
        actions, values = np.empty(count, np.int32), np.empty(count if numbers == "probabilities" else 0, np.float32)
        of_actions = np.empty((count if numbers else 0, self._num_actions), np.float32)
        given, out, version = _c_api.PolicyInput(), _c_api.PolicyOutput(), ctypes.c_int64()
        given.count, given.obs, given.stream = count, address, stream
        bits = None if mask is None else bits_of_rows(mask, count, self._num_actions)
        given.mask = None if bits is None else address_of(bits)
        for name, row in zip((noise_name, "lane", "step"), rows):
            setattr(given, name, None if row is None else address_of(row))
        out.actions = address_of(actions) if wants_actions else None
        given.greedy, out.version = flag("greedy", greedy), ctypes.addressof(version)
        if numbers:
            setattr(out, numbers, address_of(of_actions))
        out.values = address_of(values) if values.size else None
        self._call(lib.gpur_policy_act, ctypes.addressof(given), ctypes.addressof(out))
        del held
        return self._translation.actions(actions), of_actions, values, version.value

    # Weights.

    def pull(self, agent: DQN | ActionLearner | ActorCritic, target: bool = False) -> None:
        """Copies the weights of a learner with the same network, on the device, as they are after the last train step
        that was enqueued before. They are the online weights, or with `target` those of the target network of a `DQN`.
        Returns before they are copied; later calls use them. InvalidArgument: another network or device."""
        if not isinstance(agent, Learner):
            raise TypeError(f"agent is {agent!r}; it must be a gpureplay.DQN, DDPG, SAC or ActorCritic")
        which = _c_api.WEIGHTS_TARGET if flag("target", target) else _c_api.WEIGHTS_ONLINE

        def copy(learner: Any, policy: Any) -> int:
            status: int = lib.gpur_policy_pull(policy, learner, which)
            return status

        agent._open_handle()
        try:
            self._call(lambda policy: agent._invoke(lambda learner: copy(learner, policy)))
        except InvalidArgument as error:
            raise agent._explain(error) from None

    def load(self, path: str | os.PathLike[str], progress: Progress | None = None) -> None:
        """Loads weights from a file of `save`, of `DQN.save_weights`, of `DQN.save` (the online weights), or from any
        safetensors file with this network's tensors. progress and errors are as for `ReplayBuffer.save`.

            policy.save("policy.safetensors")
            policy.load("policy.safetensors")
        """
        call_with_file(self, lib.gpur_policy_load, path, progress)

    def save(self, path: str | os.PathLike[str], progress: Progress | None = None) -> None:
        """Writes the weights and their version, as a plain safetensors file."""
        call_with_file(self, lib.gpur_policy_save, path, progress)

    def get_weights(self) -> bytes:
        """All weights and their version, for `set_weights` of a policy in another process."""
        self._open_handle()
        weights = ctypes.create_string_buffer(self._invoke(lib.gpur_policy_weights_bytes))
        self._call(lib.gpur_policy_get_weights, ctypes.addressof(weights), len(weights))
        return weights.raw

    def set_weights(self, weights: BytesLike) -> None:
        """Takes the bytes of `get_weights` of a policy with an equal network. InvalidArgument: they are none."""
        data = np.frombuffer(weights, np.uint8)
        self._call(lib.gpur_policy_set_weights, data.ctypes.data, data.size)

    @property
    def version(self) -> int:
        """The version of the weights: the learner's number of train steps when they were pulled or saved."""
        self._open_handle()
        return int(self._invoke(lib.gpur_policy_version))

    @property
    def stats(self) -> PolicyStats:
        """Counts of calls and observations, and memory."""
        stats = _c_api.PolicyStats()
        self._call(lib.gpur_policy_get_stats, ctypes.addressof(stats))
        return read_tuple(PolicyStats, stats)

    @property
    def config(self) -> dict[str, Any]:
        """The settings by name, including those of the preset and the defaults. A copy."""
        return settings_of(self._config)

    def close(self) -> None:
        """Waits for the policy's work and frees its memory."""
        super().close()

    def __repr__(self) -> str:
        if self.closed:
            return f"<gpureplay.Policy, {self._num_actions} actions, closed>"
        names = "trunk head hidden streams max_batch seed"
        state = f"{self._num_actions} actions, on {self.device.name}, version {self.version}"
        return f"<gpureplay.Policy, {state}; {settings_text(self.config, names)}>"
