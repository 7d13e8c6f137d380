# SPDX-License-Identifier: MIT
"""Replay of environments that step together on the device, whose experience never passes the host."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _c_api
from ._config import Spec, index_source_of, lane_config, max_batch_of
from ._device import Device, TorchDevice, as_device, caller_depth
from ._handle import Handle, Progress, WeakItems, call_with_file, note_library_threads
from ._inputs import flag, integer, real, stream_of
from ._lane_arrays import Kind, Kinds
from ._library import InvalidArgument, lib
from ._schema import Field, fields_of
from ._struct import read_tuple
from ._tuples import LaneStats, PriorityStats
from ._writer import AUTORESETS, autoreset_name

if TYPE_CHECKING:
    from ._settings import FirstPriority, Prioritized, Schedule, StackAxis, WeightNorm

_NEXT, _FINAL = "next_", "final_"
_ENDS = tuple(Field(name, (), np.dtype(np.bool_)) for name in ("terminated", "truncated"))
_REWARD = Field("reward", (), np.dtype(np.float32))
_ROLES = {field.name for field in (_REWARD, *_ENDS)}
_IDS, _PRIORITIES = Field("ids", (), np.dtype(np.int64)), Field("priorities", (), np.dtype(np.float32))
_WHICH = Field("lanes", (), np.dtype(np.bool_))
_OF_DRAW = tuple(Field(name, (), np.dtype(dtype)) for name, dtype in (
    ("id", np.int64), ("weight", np.float32), ("discount", np.float32), ("steps", np.int32)))
_OF_SEQUENCES = tuple(Field(name, (), np.dtype(np.bool_)) for name in ("mask", "is_first"))

_seeds = itertools.count()  # of buffers that are given none


class Ask(NamedTuple):
    """How rows are drawn. length 0: no sequences."""

    n_step: int
    gamma: float
    per_lane: bool = False
    length: int = 0
    min_length: int = 0
    across_episodes: bool = True


def _pair_of(field: Field, by_name: Mapping[str, Field]) -> str | None:
    """The name of x, if this is a field next_x that is not stored, since it is x of the lane's next step. None: it is
    stored, as where x is of another shape or dtype, is the reward or a flag, or is not stored itself."""
    x = by_name.get(field.name[len(_NEXT):]) if field.name.startswith(_NEXT) else None
    if x is None or x.name in _ROLES or x[1:] != field[1:]:
        return None
    return None if _pair_of(x, by_name) else x.name


def _with_pairs(given: list[Field]) -> list[Field]:
    """The schema: what every buffer of lanes has is added where it was left out."""
    fields, names = list(given), {field.name for field in given}
    for field in (_REWARD, *_ENDS):
        if field.name not in names:
            fields.append(field)
    for field in given:
        if (field.name == "obs" or field.name.startswith("obs.")) and _NEXT + field.name not in names:
            fields.append(field._replace(name=_NEXT + field.name))
    return fields


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Arrays by the names of their fields: those of a dict or a tuple are name.key."""
    if isinstance(value, (Mapping, tuple)):
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _leaves(f"{name}.{key}", part)
    elif value is not None:
        yield name, value


class LaneBuffer(Handle):
    """A ring of the steps of environments that step together, called lanes. Their arrays are handed over on the device,
    without a copy to the host, and each observation is stored once: a transition's next observation is the lane's next
    step, or the final one that was given. Transitions of n steps are made when they are drawn.

        buffer = gpureplay.LaneBuffer(4096, 1000, {"obs": ((97,), "float32"), "action": ((29,), "float32")}, n_step=3)
        buffer.add(obs=obs, action=action, reward=reward, terminated=terminated, truncated=truncated,
                   final_obs=final_obs)
        batch = buffer.sample(32768)      # a dict of arrays: obs, action, reward, next_obs, ..., discount, steps, id

    num_lanes: the number of environments, 1 to 65,536. steps: how many steps of each are kept, 2 or more.
    fields, action_space: a dict of name: (shape, dtype), or an observation and an action space of Gymnasium, as for
        `ReplayBuffer`. reward (float32), terminated and truncated (bool), and next_obs beside obs are added where they
        are left out. Any field next_x beside a field x of the same shape and dtype is such a pair: "next_critic_obs"
        beside "critic_obs", for example. It takes no memory of its own. reward, terminated, truncated and the next_x
        of a pair have none: next_reward is a field like any other, and stored.
    n_step, gamma: the number of steps of a transition, 1 to 64, and the discount per step. `sample` may take others.
    autoreset: how the environments reset themselves. "same_step": a step that ends an episode returns the first
        observation of the next one, and the final one beside it, as those of most simulators do. "next_step": it
        returns the final observation, and the step after it resets and is no transition. "disabled": they are reset
        by the caller, between two steps.
    frame_stack: the number of frames, 2 to 16, of which obs is a stack; of a Dict or Tuple space those parts of two
        axes or more whose axis is so long. Only the newest frame of each step is stored. `add` takes whole stacks, the
        oldest frame first. Where an episode begins the older frames must be zeros or all like the newest one, and after
        that the newest ones of the steps before: in the first frame_stack steps of an episode and after `load` stacks
        are compared with what is stored, and one that differs is left out and counted in `stats.broken_stacks`.
    stack_axis: which axis of obs counts the frames, "first" (the default) or "last".
    distinct: no transition appears twice in a batch. A row that finds none which no other may have is zeros, with id
        -1: so are many where fewer than batch_size transitions can be drawn, and few where there are several times as
        many.
    prioritized, alpha, beta, weight_norm, priority_offset, first_priority: sampling by priority, as for `ReplayBuffer`.
    reward_clip: rewards are clipped to +- this when they are added; 0: they are not.
    seed: of sampling; None: as for `ReplayBuffer`. max_batch: the largest batch; default: 65,536, or with distinct
        num_lanes x steps - 1 if that is less.
    device: as for `ReplayBuffer`.

    `DQN` and `DDPG` train on it as on a `ReplayBuffer`. On CUDA their steps run on the device's stream: make the buffer
    with device=Device("cuda:0", stream=...) of the stream that `add` is called on.

    Arrays are PyTorch's, CuPy's, JAX's or NumPy's (on the CPU), of the field's dtype, contiguous, and in the device's
    memory. They are not searched for NaN. On CUDA a call enqueues kernels on PyTorch's current stream, or on `stream`,
    and nothing else: it may be captured into a CUDA graph, which goes on with each launch as the same calls would. On
    the CPU a call is done when it returns. In a function that torch.compile takes, `add`, `reset`, `sample`, `gather`
    and `update_priorities` are operators, which need PyTorch's arrays.

    Any thread may call. Calls of several threads come one after the other, on CUDA if they are on one stream.
    """

    _kind = "buffer"

    def __init__(self, num_lanes: int, steps: int, fields: Any, action_space: Any = None, *, n_step: int = 1,
                 gamma: float = 0.99, autoreset: Any = "same_step", frame_stack: int | None = None,
                 stack_axis: StackAxis | None = None, distinct: bool = False,
                 prioritized: Prioritized = False, alpha: float | None = None,
                 beta: Schedule | None = None, weight_norm: WeightNorm | None = None,
                 priority_offset: float | None = None,
                 first_priority: FirstPriority | None = None, reward_clip: float | None = None, seed: int | None = None,
                 max_batch: int | None = None, device: str | TorchDevice | Device = "auto"):
        given = locals()
        self.fields = _with_pairs(fields_of(fields, action_space))
        settings = {name: given[name] for name in (
            "n_step", "gamma", "frame_stack", "stack_axis", "distinct", "prioritized", "alpha", "beta", "weight_norm",
            "priority_offset", "first_priority", "reward_clip", "max_batch")}
        settings["seed"] = next(_seeds) if seed is None else seed
        mode = AUTORESETS.index(autoreset_name(autoreset))
        config = lane_config(self.fields, num_lanes, steps, mode, settings)
        self.num_lanes, self.steps = int(config.lanes), int(config.capacity // config.lanes)
        self.capacity, self.n_step, self.gamma = int(config.capacity), int(config.n_step), float(config.gamma)
        self.max_batch = max_batch_of(config)
        self.device, self._is_prioritized = as_device(device), bool(config.prioritized)
        # What a learner reads of a buffer.
        self._spec = Spec(config, self.fields, self.fields, _c_api.OBSERVATIONS_STACKS, sequences=False)
        self._obs_space, self._action_space = fields if hasattr(fields, "sample") else None, action_space
        self._users: WeakItems[Handle] = WeakItems()
        self._flattener, self.check_nan = None, True
        self._is_uniform = index_source_of(config) == _c_api.UNIFORM
        self._resets_later = config.lane_autoreset == _c_api.AUTORESET_NEXT_STEP
        by_name = {field.name: field for field in self.fields}
        # What `add` calls the fields: final_x in place of next_x.
        self._given = [field if (x := _pair_of(field, by_name)) is None else field._replace(name=_FINAL + x)
                       for field in self.fields]
        self._order = {field.name: at for at, field in enumerate(self._given)}
        self._refuse_names()
        self._finals = [given.name for given, field in zip(self._given, self.fields) if given.name != field.name]
        self._may_miss = {"truncated", *self._finals}
        self._outputs = {field.name: field for field in (*self.fields, *_OF_DRAW)}
        if not self._is_prioritized:
            del self._outputs["weight"]
        self._addresses = ctypes.c_void_p * len(self.fields)
        self._kinds = Kinds(self.device)
        self._is_told = self._resets_later or not self._finals  # of truncated steps without final observations
        # What made the arrays that were given last.
        self._like: Kind | None = self._kinds.of_torch() if type(device).__module__ == "torch" else None
        if self.device.is_cuda:
            note_library_threads()
        create = functools.partial(self.device._call, lib.gpur_replay_create, ctypes.addressof(config))
        super().__init__(create, lib.gpur_replay_destroy)
        self._torch: Any = None
        self._jax: Any = None  # its entry in the table of gpureplay.jax
        if "torch" in sys.modules:
            self._make_operators()

    def _make_operators(self) -> None:
        if self._torch is None:
            from . import _torch_lanes
            self._torch = _torch_lanes.Operators(self)

    # torch.compile then calls it while it traces, in place of tracing it: PyTorch may be imported after the buffer was
    # made.
    _make_operators._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def _operators(self) -> Any:
        """PyTorch's operators of the buffer, in a function that torch.compile takes. None: it is called as it is."""
        compiler = getattr(sys.modules.get("torch"), "compiler", None)  # None also while another thread imports PyTorch
        if compiler is None or not compiler.is_compiling():
            return None
        self._make_operators()
        return self._torch

    def _wait_for_jax(self) -> None:
        """Waits for compiled functions, which JAX runs in threads of its own."""
        if self._jax is not None and not self.closed:
            self._jax.wait()

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        self._wait_for_jax()
        super()._call(function, *arguments)

    def _refuse_names(self) -> None:
        """Batches and `add` have names of their own."""
        for field in _OF_DRAW + _OF_SEQUENCES:
            if field.name in self._order:
                raise ValueError(f"a field is called {field.name!r}, as an array that batches have beside the fields; "
                                 "choose another name")
        for field, given in zip(self.fields, self._given):
            if self.fields[self._order[given.name]] is not field:
                raise ValueError(f"a field is called {given.name!r}, as what `add` takes in place of {field.name}; "
                                 "choose another name")

    def add(self, *, stream: Any = None, **values: Any) -> None:
        """Adds a step of all lanes: each field by name, (num_lanes, ...). A Dict or Tuple space's parts are given as a
        dict or a tuple, or as "obs.key".

        obs: what the lanes saw before they acted.
        final_obs: what came after the step where it ended an episode; other lanes' are not read. Likewise final_x for
            each pair x and next_x. Without it a step that was truncated is left out and counted in
            `stats.without_final`, and one that was terminated has zeros as its next observation. The first `add` with
            such a truncated step warns; on CUDA, where the flags are not looked at, the first with `truncated` and
            without final_obs. With autoreset="next_step" there is none.
        truncated: may be left out: none was.
        stream: CUDA: the stream that has made the arrays, for others than PyTorch's. None: PyTorch's current stream,
            or for other arrays the one that they tell. Arrays that tell none, as JAX's, are waited for, as is
            PyTorch's current stream, and the step is stored when the call returns. If streams differ from call to
            call, give the same one to all.

        ValueError, TypeError: an array is missing or is not as the field needs it. Nothing was added."""
        arrays, operators = self._in_order(values), self._operators()
        if operators is not None:
            operators.add(arrays, stream)
        else:
            self._add_now(arrays, stream)

    def _in_order(self, values: Mapping[str, Any]) -> list[Any]:
        """The arrays in the order of the fields; None: left out, as final observations and `truncated` may be."""
        arrays: list[Any] = [None] * len(self.fields)
        for whole, value in values.items():
            for name, array in _leaves(whole, value):
                if name not in self._order:
                    raise self._unknown(name)
                arrays[self._order[name]] = array
        for name, at in self._order.items():
            if arrays[at] is None and name not in self._may_miss:
                raise TypeError(f"{name} is missing; `add` needs "
                                f"{', '.join(name for name in self._order if name not in self._may_miss)}")
        missing = [name for name in self._finals if arrays[self._order[name]] is None]
        if missing and len(missing) < len(self._finals):
            given = next(name for name in self._finals if name not in missing)
            raise TypeError(f"{missing[0]} is missing and {given} is given; `add` needs all of "
                            f"{', '.join(self._finals)}, or none")
        return arrays

    def _add_now(self, arrays: list[Any], stream: Any) -> None:
        kind = self._kinds.of(next(array for array in arrays if array is not None))
        self._refuse_finals(arrays)
        addresses = self._addresses(*[None if array is None else kind.address(field, array, self.num_lanes)
                                      for field, array in zip(self._given, arrays)])
        self._refuse_overwritten(addresses)
        self._call(lib.gpur_replay_add_lanes, addresses, kind.stream(stream))
        self._like = kind
        if not self._is_told:
            self._tell_of_finals(arrays, can_look=not self.device.is_cuda)

    def _refuse_finals(self, arrays: list[Any]) -> None:
        """Refuses what this buffer's way to reset leaves out."""
        for name in self._finals if self._resets_later else ():
            if arrays[self._order[name]] is not None:
                raise InvalidArgument(f"{name} is given and autoreset is \"next_step\", where the next step's "
                                      f"{name[len(_FINAL):]} is the final one; it must be left out")

    def _unknown(self, name: str) -> Exception:
        if name.startswith(_NEXT) and _FINAL + name[len(_NEXT):] in self._finals:
            x = name[len(_NEXT):]
            return TypeError(f"{name} is given; it is the {x} of the next step. Where an episode ends give what came "
                             f"last as {_FINAL}{x}")
        return TypeError(f"{name} is given, and the buffer has no such field; `add` takes {', '.join(self._order)}")

    def _tell_of_finals(self, arrays: list[Any], can_look: bool) -> None:
        """Warns, once, of truncated steps without their final observations. can_look: the flags are in host memory;
        else any of them may be set."""
        truncated, terminated = (arrays[self._order[name]] for name in ("truncated", "terminated"))
        if self._is_told or truncated is None or arrays[self._order[self._finals[0]]] is not None:
            return
        if can_look and not (np.asarray(truncated, bool) & ~np.asarray(terminated, bool)).any():
            return
        self._is_told = True
        warnings.warn(f"`add` was given no {', '.join(self._finals)}: a step that was truncated is left out without "
                      "it, and one that was terminated has zeros as its next observation; give it, or say "
                      "autoreset=\"next_step\" if the environments return it before they reset",
                      RuntimeWarning, stacklevel=caller_depth())

    def _refuse_overwritten(self, addresses: Any) -> None:
        """obs and final_obs of one memory: one of them has been overwritten by the other."""
        for final in self._finals:
            x, at = final[len(_FINAL):], self._order[final]
            if addresses[at] is not None and addresses[at] == addresses[self._order[x]]:
                raise ValueError(f"{x} and {final} are the same memory, so that one has overwritten the other; they "
                                 "must be arrays of their own")

    def reset(self, lanes: Any = None, *, stream: Any = None) -> None:
        """Says that environments were reset amid their episodes since the newest step, as after an evaluation: the next
        `add` does not follow that step, and begins an episode. The step, whose next observation will not come, is left
        out and counted in `stats.without_final`, unless it has ended its episode itself. With autoreset="next_step" it
        is left out then, too, and the next step resets nothing. Before the first step, and called again, it changes
        nothing.

        lanes: bool (num_lanes,) on the device: which ones; other arrays are refused as by `add`. None: all.
        stream: CUDA: see `add`.

            lanes.reset()                             # an evaluation has reset all environments
        """
        operators = self._operators()
        if operators is not None:
            operators.reset(lanes, stream)
        else:
            self._reset_now(lanes, stream)

    def _reset_now(self, lanes: Any, stream: Any) -> None:
        kind = self._like if lanes is None else self._kinds.of(lanes)
        if kind is None and ("torch" in sys.modules or not self.device.is_cuda):
            kind = self._kinds.default()
        which = None if lanes is None or kind is None else kind.address(_WHICH, lanes, self.num_lanes)
        self._call(lib.gpur_replay_reset_lanes, which, stream_of(stream) if kind is None else kind.stream(stream))

    def sample(self, batch_size: int, *, n_step: int | None = None, gamma: float | None = None, per_lane: bool = False,
               out: Mapping[str, Any] | None = None, stream: Any = None) -> dict[str, Any]:
        """Draws batch_size transitions, uniformly or by priority: a dict of arrays (batch_size, ...), of the library
        whose arrays `add` was given. Before the first `add` they are PyTorch's if `device` was a torch.device; else,
        and where those given were JAX's, they are NumPy's on the CPU, and on CUDA PyTorch's or CuPy's.

        Beside the fields it has discount, float32: gamma ** steps, or 0 where the task ended; steps, int32: how many
        steps the transition has, at most n_step, fewer where an episode ends or the newest step is reached; id, int64,
        -1: there was no transition to draw, and all its numbers are 0; and with priorities weight, float32. A target is
        reward + discount x the value of next_obs. The last step's terminated and truncated are those of the transition.

        n_step, gamma: in place of the buffer's, in this call.
        per_lane: True: as many transitions of each lane, those of lane 0 first; batch_size must be a multiple of
            num_lanes, and the draw uniform. False: of all lanes together.
        out: the dict of an earlier call, or one of arrays of one's own, for some of these names. They are filled, and
            the dict is returned. In a graph that a caller captures, and that is launched again, it is this that keeps
            the arrays where they are.
        stream: CUDA: see `add`.

        InvalidArgument: batch_size is not 1 to max_batch, or n_step or gamma is out of range."""
        count = self._batch_size(batch_size, per_lane)
        return self._draw(count, None, self._ask(n_step, gamma)._replace(per_lane=per_lane), out, stream)

    def _batch_size(self, batch_size: int, per_lane: bool) -> int:
        """The number of transitions to draw, if it is one."""
        count = integer("batch_size", batch_size, 1, self.max_batch)
        if flag("per_lane", per_lane):
            self._refuse_per_lane(count)
        return count

    def _refuse_per_lane(self, batch_size: int) -> None:
        if not self._is_uniform:
            raise InvalidArgument("per_lane is True and the buffer is distinct or prioritized; it must be neither")
        if batch_size % self.num_lanes:
            raise InvalidArgument(f"per_lane is True and batch_size is {batch_size}; it must be a multiple of "
                                  f"num_lanes = {self.num_lanes}")

    def gather(self, ids: Any, *, n_step: int | None = None, gamma: float | None = None,
               out: Mapping[str, Any] | None = None, stream: Any = None) -> dict[str, Any]:
        """The transitions of these ids, (count,) int64 on the device, as `sample` gives them: t x num_lanes + lane,
        where t counts the steps of all lanes from 0. The id of a transition that cannot be drawn, or no longer, becomes
        -1. With priorities weight is 1.

            batch = lanes.sample(64)
            same = lanes.gather(batch["id"])
        """
        return self._draw(self._count("ids", ids), ids, self._ask(n_step, gamma), out, stream)

    def sample_sequences(self, batch_size: int, length: int, *, min_length: int | None = None,
                         across_episodes: bool = True, last_ids: Any = None, n_step: int | None = None,
                         gamma: float | None = None, out: Mapping[str, Any] | None = None, stream: Any = None
                         ) -> dict[str, Any]:
        """Draws sequences of successive transitions of a lane: a dict of arrays (batch_size, length, ...), the oldest
        first, as `ReplayBuffer.sample_sequences` does. Beside the arrays of `sample` it has mask, bool: there is a
        transition; and is_first, bool: it is the first of its episode. batch_size x length: at most max_batch.

        The last transition of a sequence is drawn, or given by last_ids (batch_size,) int64; those before it are found.
        A sequence ends at an episode's end that cannot be drawn. min_length, across_episodes: as there. n_step: each
        transition is of so many steps. out, stream: see `sample`.

            batch = lanes.sample_sequences(16, 8)     # batch["obs"] is (16, 8, ...)
        """
        count, ask = self._ask_sequences(batch_size, length, min_length, across_episodes, last_ids, n_step, gamma)
        return self._draw(count, last_ids, ask, out, stream)

    def _ask_sequences(self, batch_size: int, length: int, min_length: int | None, across_episodes: bool,
                       last_ids: Any, n_step: int | None, gamma: float | None) -> tuple[int, Ask]:
        """The number of sequences, and how they are drawn, if they can be."""
        count, rows = integer("batch_size", batch_size, 1), integer("length", length, 1)
        if count * rows > self.max_batch:
            raise InvalidArgument(f"batch_size is {count} and length {rows}; batch_size x length must be at most "
                                  f"max_batch = {self.max_batch}")
        if last_ids is not None and self._count("last_ids", last_ids) != count:
            raise ValueError(f"last_ids has {len(last_ids)} ids and batch_size is {count}; they must be equal")
        fewest = (rows if across_episodes else 1) if min_length is None else integer("min_length", min_length, 1, rows)
        return count, self._ask(n_step, gamma)._replace(length=rows, min_length=fewest,
                                                        across_episodes=flag("across_episodes", across_episodes))

    def _ask(self, n_step: int | None, gamma: float | None) -> Ask:
        steps = self.n_step if n_step is None else integer("n_step", n_step, 1, _c_api.MAX_N_STEP)
        factor = self.gamma if gamma is None else real("gamma", gamma)
        if not 0.0 <= factor <= 1.0:
            raise InvalidArgument(f"gamma is {gamma}; it must be 0 to 1")
        return Ask(steps, factor)

    def _draw(self, count: int, ids: Any, ask: Ask, out: Mapping[str, Any] | None, stream: Any) -> dict[str, Any]:
        if out is not None and (not isinstance(out, Mapping) or not out):
            what = "{}" if isinstance(out, Mapping) else f"a {type(out).__name__}"
            raise TypeError(f"out is {what}; it must be a dict of arrays by name, or None")
        operators = self._operators()
        if operators is not None:
            batch: dict[str, Any] = operators.draw(count, ids, ask, out, stream)
            return batch
        return self._draw_now(count, ids, ask, out, stream)

    def _draw_now(self, count: int, ids: Any, ask: Ask, out: Mapping[str, Any] | None, stream: Any) -> dict[str, Any]:
        kind, outputs = self._kind_of_draw(ids, out), self._outputs_of(ask.length)
        batch: Mapping[str, Any] = {}
        if out is None:
            batch = {name: kind.empty((count, *field.shape), field.dtype) for name, field in outputs.items()}
        else:
            batch, outputs = out, self._called_out(out, outputs)
        draw = _c_api.LaneDraw()
        draw.count, draw.n_step, draw.gamma, draw.of_each_lane = count * (ask.length or 1), *ask[:3]
        draw.length, draw.min_length, draw.across_episodes = ask[3:]
        draw.ids = None if ids is None else kind.address(_IDS, ids, count)
        places = {name: kind.out_address(outputs[name], array, count) for name, array in batch.items()}
        fields = self._addresses(*[places.pop(field.name, None) for field in self.fields])
        for name, place in places.items():
            setattr(draw, name, place)
        draw.fields = ctypes.addressof(fields)
        self._call(lib.gpur_replay_draw_lanes, ctypes.addressof(draw), kind.stream(stream))
        return batch if isinstance(batch, dict) else dict(batch)

    def _called_out(self, out: Mapping[str, Any], outputs: Mapping[str, Field]) -> dict[str, Field]:
        """The fields of the arrays in `out`, by the names that messages give them."""
        for name in out:
            if name not in outputs:
                raise TypeError(f"out has {name}; it may have {', '.join(outputs)}")
        return {name: outputs[name]._replace(name=f'out["{name}"]') for name in out}

    def _outputs_of(self, length: int) -> dict[str, Field]:
        """The arrays of a batch by name, with the shapes of one transition, or of a sequence."""
        if length == 0:
            return self._outputs
        return {field.name: field._replace(shape=(length, *field.shape))
                for field in (*self._outputs.values(), *_OF_SEQUENCES)}

    def _kind_of_draw(self, ids: Any, out: Mapping[str, Any] | None) -> Kind:
        if out:
            return self._kinds.of(next(iter(out.values())))
        if ids is not None:
            return self._kinds.of(ids).of_outputs()
        return self._kinds.default() if self._like is None else self._like.of_outputs()

    def update_priorities(self, ids: Any, priorities: Any, *, stream: Any = None) -> None:
        """Gives transitions new priorities: (count,) int64 and (count,) float32 on the device, count at most max_batch.
        Absolute values count; what is NaN or infinite is skipped and counted in `priority_stats`, as are transitions
        that cannot be drawn any more and the id -1.

            batch = lanes.sample(64)
            lanes.update_priorities(batch["id"], errors)
        """
        self._refuse_if_uniform()
        operators = self._operators()
        if operators is not None:
            operators.update(ids, priorities, stream)
        else:
            self._update_now(ids, priorities, stream)

    def _refuse_if_uniform(self) -> None:
        if not self._is_prioritized:
            raise InvalidArgument("this buffer has no priorities; make it with prioritized=True or \"independent\"")

    def _count(self, name: str, ids: Any) -> int:
        """The number of ids, if they are not too many."""
        if not getattr(ids, "shape", ()):
            what = "of shape ()" if hasattr(ids, "shape") else f"a {type(ids).__name__}"
            raise TypeError(f"{name} is {what}; it must be an array (count,) of int64")
        count: int = ids.shape[0]
        if not 1 <= count <= self.max_batch:
            raise InvalidArgument(f"{name} has {count} numbers; they must be 1 to max_batch = {self.max_batch}")
        return count

    def _update_now(self, ids: Any, priorities: Any, stream: Any) -> None:
        count = self._count("ids", ids)
        kind = self._kinds.of(ids)
        self._call(lib.gpur_replay_update_lanes, count, kind.address(_IDS, ids, count),
                   kind.address(_PRIORITIES, priorities, count), kind.stream(stream))

    @property
    def priority_stats(self) -> PriorityStats:
        """Statistics of all priorities, when the work that was enqueued before is done, for which this waits."""
        self._refuse_if_uniform()
        self._wait()
        stats = _c_api.PriorityStats()
        self._call(lib.gpur_replay_get_priority_stats, ctypes.addressof(stats))
        return read_tuple(PriorityStats, stats)

    # Files.

    def save(self, path: str | os.PathLike[str], progress: Progress | None = None) -> None:
        """Writes the steps that are kept, their final observations and priorities. The file at `path` is always the old
        one or the new one, and complete.

        progress: is called with the bytes done and the bytes in all. False ends the save, as an exception does. It must
        not use the buffer. Ctrl-C ends the save at once; the old file stays.

        On CUDA it waits for PyTorch's current stream, or for what made the arrays that were given last. Work on other
        streams must be done, and none of them may be under capture.

        FileError: the file cannot be written. Unavailable: the library was built without cJSON or xxHash."""
        self._wait()
        call_with_file(self, lib.gpur_replay_save, path, progress)

    def load(self, path: str | os.PathLike[str], progress: Progress | None = None) -> None:
        """Replaces all steps by those of a file. The whole file is checked before anything changes.

        These settings must equal the file's: fields, num_lanes, autoreset, frame_stack, stack_axis, reward_clip, and
        prioritized or not (and then priority_offset). n_step and gamma may differ, and so may `steps`: of a file with
        more of them the newest are loaded; final observations that find no room count in `stats.lost_finals`.
        Transitions keep their ids and priorities; alpha and beta become the file's. Adding and sampling continue bit
        for bit as after the save if `steps` and seed are the same, and distinct, "independent", weight_norm and
        first_priority, too.

        progress: as for `save`. Ctrl-C ends the load only before the first change; after it the load completes. Streams
        are waited for as by `save`.

        InvalidArgument: a setting differs. FileError: the file is of another kind, or damaged."""
        self._wait()
        call_with_file(self, lib.gpur_replay_load, path, progress)

    def _wait(self) -> None:
        stream = self._stream_now()
        if stream is not None:
            self.device.wait_stream(stream)

    @property
    def stats(self) -> LaneStats:
        """Counts, when the work that was enqueued before is done, for which this waits."""
        stats = _c_api.LaneStats()
        self._call(lib.gpur_replay_get_lane_stats, ctypes.addressof(stats), self._stream_now())
        return read_tuple(LaneStats, stats)

    def _stream_now(self) -> int | None:
        return None if self._like is None else self._like.stream(None)

    def close(self) -> None:
        """Closes the buffer's learners and frees its memory. Graphs that were captured with it must not be launched any
        more.

            with gpureplay.LaneBuffer(64, 1000, {"obs": ((4,), "float32"), "action": ((), "int32")}) as lanes:
                lanes.add(obs=obs, action=action, reward=reward, terminated=terminated)
        """
        self._wait_for_jax()
        self._detach()
        for user in self._users:
            user.close()
            user._closed_by = "was closed with its buffer"
        self._owner.destroy()

    def __len__(self) -> int:
        """The number of transitions that can be drawn. The call waits, as `stats` does."""
        return self.stats.transitions

    def __repr__(self) -> str:
        if self.closed:
            return "<gpureplay.LaneBuffer, closed>"
        return f"<gpureplay.LaneBuffer of {self.num_lanes} lanes x {self.steps} steps on {self.device.name}>"
