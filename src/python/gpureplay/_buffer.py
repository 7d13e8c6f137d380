# SPDX-License-Identifier: MIT
"""The replay buffer."""

from __future__ import annotations

import contextlib
import ctypes
import os
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import _files, _inputs, _mirror, _reuse, _settings, _steps
from ._accelerator import tried_in_c
from ._batch import Batch, LayoutsOfBuffer, Reference
from ._device import Device, TorchDevice, as_device
from ._environment import environment_of
from ._handle import Handle, start_work
from ._library import FileError, GpureplayError, check, lib
from ._numbers import flag, integer, stream_of
from ._priorities import Priorities
from ._replay_config import SETTINGS, Plan, Stats, form_of
from ._schema import fields_of
from ._writer import Writer

_redraw = _reuse.redraw
_SPARE = 3  # batches of the last size that are looked at again


class ReplayBuffer(Priorities):
    """A ring of transitions in a device's memory, and minibatches drawn from it.

    capacity: transitions kept in all, of all environments; the oldest are overwritten. None: the preset's.
    fields, action_space: either a dict of name: (shape, dtype), or an observation and an action space of Gymnasium,
        which give obs, action, reward, next_obs, terminated, truncated (Dict and Tuple spaces: "obs.key" for each leaf;
        float64 is kept as float32). dtypes: float32, float16, uint8, int32, int64, bool.
    preset: "nature-dqn", "nature-dueling", "apex-dqn", "melee-gpu", "melee-dqn", "melee-double": the settings of a
        published system. What else is given overrides them; None is the preset's, or the library's default.
    device: "auto", "cpu", "cuda:N", a torch.device, or an open `Device`.
    num_envs: environments that one `add` steps.
    autoreset: "disabled", "next_step" or "same_step", or Gymnasium's AutoresetMode; what `add` makes of environments
        that reset themselves. Default: "next_step" when num_envs > 1, as Gymnasium's vector environments do, else
        "disabled"; a vector of one environment must say it, and `add` refuses its steps until it is said. `for_env`
        asks the environment.
    min_size: transitions before `sample` and `DQN.train` begin; until then they raise TooFew. max_batch: the largest
        batch; default 4,096, or half the capacity if less, and of layout "linked" that over frame_stack + n_step, or 2
        frame_stack if less.
    gamma: discount per step, for a batch's `discount`. reward_clip: rewards are clipped to +- this; 0: not.
    distinct: no transition twice in a batch. seed: of the draws.
    update_size: transitions that are copied to the device at once. flush: "auto": a draw sees every transition that
        this thread's earlier calls gave; "manual": whole blocks, and what `flush` asks for.
    check_nan: what comes from the host's memory is searched for NaN, and refused with it.

    By priority [Schaul et al. 2016]:
    prioritized: True: in proportion to priority ** alpha, each row of a batch from its own part of the whole; "plain":
        each row from the whole. alpha: default 0.6; priority ** alpha is kept up to 4,096, which is a priority of 1.05
        million at alpha 0.6 and of 4,096 at 1: larger ones count as that. priority_offset: added to each priority;
        default 1e-6.
    beta: exponent of a batch's importance weights: a number, or (first, last, steps) or (first, last, steps, begin),
        which goes from first to last in so many draws; default 0.4. weight_norm: what weights are divided by: "batch":
        the batch's largest; "memory": the largest that any transition would have; "none".
    A field "priority", one float32, is a transition's first priority; else that is the largest given so far.

    Several steps, and frames that are stored once:
    n_step: steps that `add` makes one transition of, 1 to 64: rewards summed with gamma, next_obs n steps later, or
        where the episode ended. Above 1 there is a field "discount", float32: gamma to the power of the steps there
        were, 0 where the task ended. Who does not give it in `fields` gets it.
    frame_stack: frames of which obs and next_obs are stacks, 1 to 16. Above 1 the layout is "linked" unless said.
    layout: "linked": each frame of an episode is stored once, and a batch's stacks are made of them; "packed".
    stack_axis: "first" or "last". stack_pad: an episode's first stacks begin with zeros ("zero", the default) or with
        copies of its first frame ("repeat").
    frame_slack: frames kept beside one a transition, and how far back a transition may link; default capacity / 64, or
        if more what num_envs environments, or 64, need for none of their frames to be stored twice.
    observations: "stacks": obs and next_obs are given as batches have them. "frames": the newest frame alone, and
        `fields` or the spaces describe that; in a batch it has one axis more.

    With n_step above 1, layout "linked" or a field "previous" (one int64: id of the same environment's transition
    before, or -1) `add` goes by steps: see `Writer.add`.

    Any number of threads may call; those that `add` or `extend` take turns, and a `writer` each spares them that.
    """

    _kind = "buffer"

    def __init__(self, capacity: int | None, fields: Any, action_space: Any = None, *, preset: str | None = None,
                 device: str | TorchDevice | Device = "auto", num_envs: int = 1, autoreset: Any = None,
                 min_size: int | None = None, max_batch: int | None = None, gamma: float | None = None,
                 reward_clip: float | None = None, distinct: bool = False, seed: int | None = None,
                 update_size: int | None = None, flush: str | None = None, check_nan: bool = True,
                 prioritized: bool | str | None = None, alpha: float | None = None,
                 beta: float | Sequence[float] | None = None, weight_norm: str | None = None,
                 priority_offset: float | None = None, n_step: int | None = None, frame_stack: int | None = None,
                 layout: str | None = None, stack_axis: str | None = None, stack_pad: str | None = None,
                 frame_slack: int | None = None, observations: str = "stacks"):
        given = locals()
        settings = {name: given[name] for name in SETTINGS}
        self._form = form_of(fields_of(fields, action_space), capacity, preset, settings)
        self._action_space = action_space
        self._is_fed_by_steps = _steps.is_fed_by_steps(self._form)
        self._is_prioritized = bool(self._form.config.prioritized)
        self.fields, self._check_nan = self._form.fields, flag("check_nan", check_nan)
        self.device = as_device(device)
        self.capacity: int = self._form.config.capacity
        self._waits = self.device._waits
        self._layouts = LayoutsOfBuffer(self.fields, self.device)
        self._spare: tuple[int, tuple[Any, ...]] = 0, ()  # watches of batches of one size, replaced as one
        self._users: weakref.WeakSet[Handle] = weakref.WeakSet()  # writers and learners, which end with the buffer
        address = ctypes.c_void_p()
        start_work()
        self.device._call(lib.gpur_replay_create, ctypes.addressof(self._form.config), ctypes.addressof(address))
        super().__init__(address.value, lib.gpur_replay_destroy)
        self._autoreset, self._writer = autoreset, Writer(self, num_envs, autoreset)
        self._writer._kind = "buffer"  # whoever has closed it closed the buffer
        self._rows, self._steps = self._writer._rows, self._writer._steps
        self.num_envs = self._writer.num_envs

    @classmethod
    def for_env(cls, capacity: int | None, env: Any, *, autoreset: Any = None, **options: Any) -> ReplayBuffer:
        """A buffer for the steps of this environment: a Gymnasium Env or VectorEnv, of which the spaces, num_envs and
        the autoreset mode (metadata["autoreset_mode"]) are read; nothing else is done with it. `autoreset` overrides
        what it says; `options` are the constructor's others.

        TypeError: it is neither. ValueError: a vector that does not tell how it resets, and no `autoreset`."""
        of = environment_of(env, autoreset)
        return cls(capacity, of.observation_space, of.action_space, num_envs=of.num_envs, autoreset=of.autoreset,
                   **options)

    @tried_in_c("_steps")
    def add(self, *, info: Any = None, final_obs: Any = None, **values: Any) -> int:
        """One step of every environment: each field of the schema by name, (num_envs, ...), or without that axis when
        there is one environment. `truncated` may be left out: none was. See `Writer.add`. Returns how many transitions
        it made, or with n_step above 1 completed."""
        added = self._writer._add(values, info, final_obs)
        self._steps = self._writer._steps  # there is one once it is known how the environment resets
        return added

    @tried_in_c("_rows")
    def extend(self, *, stream: Any = None, **values: Any) -> int:
        """Finished transitions: each field of the schema by name, (count, ...). See `Writer.extend`. Returns count."""
        return self._writer._extend(values, stream)

    def flush(self) -> None:
        """The next draw sees all that was added. Under flush "auto" it does anyway."""
        self._writer.flush()

    def reset(self, envs: Any = None) -> None:
        """The environments, or those that `envs` tells, were reset by the caller: the next step that is added begins
        new episodes. Transitions stay. See `Writer.reset`."""
        self._writer.reset(envs)

    def writer(self, num_envs: int = 1, autoreset: Any = None) -> Writer:
        """One more source of transitions, for one more thread. autoreset: None: what the buffer was told, by its own
        `autoreset` or by `for_env`; where that was nothing, the default for num_envs as for a buffer's."""
        writer = Writer(self, num_envs, self._autoreset if autoreset is None else autoreset)
        writer._buffer = self
        return writer

    def sample(self, batch_size: int, *, beta: float | None = None, stream: Any = None) -> Batch:
        """Draws a batch: uniformly, or by priority. beta: of the importance weights of this and later draws; a
        prioritized buffer's alone. CUDA: `stream`, a cudaStream_t as an int, or a stream of PyTorch's or CuPy's, is
        made to wait for it; None: what reads the arrays sees to that. The stream must outlive the batch: see `Batch`.
        An earlier batch that nobody holds any more may be drawn into again.

        TooFew: nothing is there, fewer than batch_size of a distinct draw, or fewer than min_size so far.
        InvalidArgument: beyond max_batch. Then beta, too, is what it was."""
        if beta is not None:
            self._refuse_draw(batch_size, stream)
            self.beta = beta
        address = None if stream is None else stream_of(stream)
        size, watches = self._spare
        if batch_size == size:
            batch = _redraw(self, address, watches)
            if batch is not None:
                if stream is not None or batch._reference.streams:
                    batch._reference.streams = ()
                    batch._reference.hold(stream)
                return self._ready(batch) if self._waits else batch
        return self._keep(self._draw(lib.gpur_replay_sample, stream, integer("batch_size", batch_size), address))

    def gather(self, ids: Sequence[int] | np.ndarray, *, stream: Any = None) -> Batch:
        """The transitions of these ids, in their order; duplicates are allowed. Evicted: one that was overwritten.
        InvalidArgument: one that is not there yet."""
        wanted = _inputs.ids(ids)
        return self._draw(lib.gpur_replay_gather, stream, len(wanted), _inputs.address(wanted), stream_of(stream))

    def _draw(self, function: Any, stream: Any, count: int, *arguments: Any) -> Batch:
        address = ctypes.c_void_p()
        self._call(function, count, *arguments, ctypes.addressof(address))
        return self._ready(self._layouts.batch(Reference(address.value or 0, stream), count))

    def _ready(self, batch: Batch) -> Batch:
        """Filled in, or on CUDA ordered before whatever reads it."""
        if self._waits:
            batch.wait()
        return batch

    def _keep(self, batch: Batch) -> Batch:
        """Looks at this batch again when as many are wanted the next time."""
        size, watches = self._spare
        self._spare = len(batch), (*(watches[-_SPARE + 1:] if len(batch) == size else ()), _reuse.watch(batch))
        return batch

    def save(self, path: str | os.PathLike[str], progress: _files.Progress | None = None) -> None:
        """Writes all that the buffer holds, and each writer's open episodes. At `path` is always the old file or the
        new one, whole. Draws, training and adding wait meanwhile.

        progress: called with the bytes done and in all; False ends it, as an exception does. Must not use the buffer.
        Ctrl-C ends it at once: the old file stays.

        FileError: it cannot be written. Unavailable: the library was built without cJSON or xxHash."""
        _files.call(self, lib.gpur_replay_save, path, progress, around=self._noted)

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        """The library knows which environments only reset in their next step, and none takes a step meanwhile."""
        writers = [user for user in list(self._users) if isinstance(user, Writer)]
        with contextlib.ExitStack() as turns:
            for writer in sorted(writers, key=id):
                turns.enter_context(writer._turn)
                writer._note_ended()
            yield

    def load(self, path: str | os.PathLike[str], progress: _files.Progress | None = None) -> None:
        """Reads such a file into this buffer, in place of what it holds. The file is checked to the last bit before
        anything changes. Must be as they were: fields, n_step, gamma, reward_clip, whether prioritized (and then
        priority_offset), and layout; of layout "linked" capacity, frame_stack, stack_axis, stack_pad, frame_slack,
        update_size and max_batch, too. Of layout "packed" the capacity may be any that has room for the file's
        transitions, which keep their ids and priorities. Draws go on as after the save when also seed, capacity,
        distinct, "plain", weight_norm, update_size, flush and max_batch are the same. alpha and beta, with its
        schedule, become the file's.

        The file's writers go, in the order in which they were made, to those that there are and then to new ones; each
        must have the num_envs of the file's, and where `add` goes by steps its autoreset and `observations`, too. There
        the episodes that were open go on with the next step, whose `obs` must be where they stood: `reset` is to be
        called if the environments were reset meanwhile. Where it does not go by steps, environments under "next_step"
        go on where they stood, too.

        progress: as for `save`. Ctrl-C ends it before the first change; what has begun to change is loaded whole.

        InvalidArgument: a setting differs, or there is no room. FileError: it is no such file, or is damaged."""
        def ended(refusal: GpureplayError | None) -> None:
            if refusal is None or isinstance(refusal, FileError):
                self._loaded(in_full=refusal is None)

        _files.call(self, lib.gpur_replay_load, path, progress, ended)

    def _loaded(self, in_full: bool) -> None:
        for user in list(self._users):
            if isinstance(user, Writer):
                user._loaded(in_full)

    def __len__(self) -> int:
        self._open_handle()
        return int(self._ask(lib.gpur_replay_size))

    def __bool__(self) -> bool:
        """A buffer is something, even without a transition."""
        return True

    @property
    def check_nan(self) -> bool:
        """Whether what comes from the host's memory is searched for NaN, as the buffer was made."""
        return self._check_nan

    @property
    def is_full(self) -> bool:
        """Adding more overwrites the oldest. Of layout "linked" that may begin before there are as many transitions as
        `capacity`: when the room for frames is used up (see frame_slack)."""
        size, is_linked = len(self), self._form.config.layout == _mirror.LINKED
        return size == self.capacity or (is_linked and size > 0 and self.stats.evicted > 0)

    @property
    def can_sample(self) -> bool:
        """True when min_size transitions have been there: a draw of one would succeed. A larger batch of a distinct
        buffer may still be TooFew."""
        self._open_handle()
        return bool(self._ask(lib.gpur_replay_can_sample))

    @property
    def stats(self) -> Stats:
        """Counts and times since creation."""
        got = _mirror.ReplayStats()
        self._call(lib.gpur_replay_get_stats, ctypes.addressof(got))
        return Stats(*(getattr(got, name) for name in Stats._fields))

    @property
    def config(self) -> dict[str, Any]:
        """The settings that it was made with, by the constructor's names, with those of the preset and the library's
        defaults filled in; None where a setting has no meaning here. A copy. alpha and beta may have changed since."""
        return {**_settings.of_buffer(self._form), "device": self.device.name, "num_envs": self.num_envs,
                "autoreset": self._writer.autoreset, "check_nan": self.check_nan}

    @staticmethod
    def plan(capacity: int | None, fields: Any, action_space: Any = None, *, preset: str | None = None,
             **settings: Any) -> Plan:
        """What such a buffer would take, before anything is allocated. `settings`: the constructor's."""
        unknown = settings.keys() - (ReplayBuffer.__init__.__kwdefaults__ or {}).keys()
        if unknown:
            raise TypeError(f"{sorted(unknown)} are no settings of a buffer; they are {', '.join(SETTINGS)}")
        form, got = form_of(fields_of(fields, action_space), capacity, preset, settings), _mirror.ReplayPlan()
        check(lib.gpur_replay_plan_bytes(ctypes.addressof(form.config), ctypes.addressof(got)))
        return Plan(*(getattr(got, name) for name in Plan._fields))

    def close(self) -> None:
        """Closes the buffer's writers and learners and gives its memory back. Batches that are held live on."""
        self._spare = 0, ()
        address = self._shut()
        for user in list(self._users):
            user.close()
            user._closed_by = "was closed" if user is self._writer else "was closed with its buffer"
        # The buffer itself last.
        for owned, destroy in sorted(self._owned.items(), key=lambda item: item[0] == address):
            if self._owned.pop(owned, None) is not None:
                destroy(owned)

    def __enter__(self) -> ReplayBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<gpureplay.ReplayBuffer, closed>"
        state = f"{len(self)} of {self.capacity} transitions on {self.device.name}"
        fields = ", ".join(f"{field.name} {field.dtype}{list(field.shape) or ''}" for field in self._form.given)
        names = "num_envs autoreset prioritized n_step layout gamma max_batch"
        return f"<gpureplay.ReplayBuffer, {state}; {fields}; {_settings.shown(self.config, names)}>"
