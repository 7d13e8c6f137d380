# SPDX-License-Identifier: MIT
"""The replay buffer."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _c_api
from ._accelerator import accelerated, fast
from ._batch import Batch, Batches, Reference, SequenceBatch
from ._config import BUFFER_SETTINGS, Settings, Spec, make_spec, max_batch_of, settings_of_buffer, settings_text
from ._device import Device, TorchDevice, as_device
from ._dlpack import DeviceArray
from ._flatten import Flattener
from ._handle import Handle, Progress, WeakItems, call_with_file, file_info, note_library_threads
from ._hindsight import Goals, Hindsight, add_hindsight
from ._inputs import (address_of, check_device_array, convert, flag, id_array, integer, producer_stream, read_array,
                      real, stream_of)
from ._library import Closed, FileError, GpureplayError, InvalidArgument, TooFew, check, lib
from ._masks import Masks
from ._schema import Field, fields_of
from ._struct import read_tuple
from ._tuples import FileInfo, Plan, PriorityStats, Stats
from ._writer import Writer, environment_of, tracks_episodes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import (BufferOptions, Eviction, FirstPriority, Flush, Layout, Observations, PlanSettings,
                            Prioritized, Schedule, StackAxis, StackPad, WeightNorm)

_IDS, _PRIORITIES = Field("ids", (), np.dtype(np.int64)), Field("priorities", (), np.dtype(np.float32))


_seeds = itertools.count()  # of buffers that are given none


def _never(_buffer: Any, _indices: Any, _priorities: Any) -> bool:
    """Without the extension module Python updates the priorities."""
    return False


_update_in_c = _never if fast is None else fast.update_priorities


@accelerated("add", "extend", "sample")
class ReplayBuffer(Handle):
    """A ring of transitions in a device's memory, from which minibatches are sampled.

    capacity: the number of transitions of all environments together. New ones overwrite the oldest. None: the preset's.
    fields, action_space: either a dict of name: (shape, dtype), or an observation and an action space of Gymnasium,
        which give obs, action, reward, next_obs, terminated, truncated. A Dict or Tuple space gives a field "obs.key"
        for each leaf; float64 is stored as float32. dtypes: float32, float16, uint8, int32, int64, bool.
    flatten: the observation space may be Discrete, MultiDiscrete, MultiBinary, a Box of any numbers, or a Tuple or Dict
        of them. Observations are stored as vectors of float32, as gymnasium.spaces.flatten makes them, which a `DQN`
        reads: one value of a Discrete is a 1 among zeros. `add` and `DQN.act` take them as the environment gives them,
        or flattened.
    preset: "nature-dqn", "nature-dueling", "apex-dqn", "melee-gpu", "melee-dqn", "melee-double": the settings of a
        published system. Other arguments override them. An argument that is None is the preset's setting, or without a
        preset the library's default.
    device: "auto", "cpu", "cuda:N", a torch.device, or an open `Device`.
    num_envs: the number of environments that one `add` steps.
    autoreset: "disabled", "next_step" or "same_step", or Gymnasium's AutoresetMode: how the environments reset
        themselves, so that `add` stores the right transitions. Default: "next_step" if num_envs > 1, like Gymnasium's
        vector environments, else "disabled". A vector of one environment must say it, and `add` refuses its steps
        otherwise. `for_env` reads it from the environment.
    min_size: the number of transitions before `sample` and `DQN.train` begin. Until then they raise TooFew.
    max_batch: the largest batch, and the most priorities of one update. Default: 4,096, or the capacity if that is
        less. With distinct=True it is at most capacity - block_rows, since so many transitions stay visible while
        others come; the default is that at most, and for layout "frames" half the capacity, divided by frame_stack +
        n_step, or by 2 frame_stack if that is less.
    gamma: the discount per step, for a batch's `discount`. reward_clip: rewards are clipped to +- this; 0: they are
        not.
    distinct: no transition appears twice in a batch. seed: the seed of sampling. None: 0 for the first buffer of the
        process that is given none, 1 for the second, and so on: each draws other positions, and a program that makes
        the same buffers draws the same ones each time. To go on from a file bit for bit, pass the seed of its buffer,
        which `config` has.
    block_rows: the number of transitions that are copied to the device at once. flush: with "auto" `sample` sees every
        transition that this thread's earlier calls added; with "manual" it sees whole blocks, and all after `flush`.
    check_nan: numbers that are NaN or infinite are refused, wherever they come from host memory: in what is added,
        loaded and acted on, and in what the environments of the buffer's runs show. False: they are taken. Arrays in
        the memory of a GPU are not searched. The field "priority" may have NaN, which means none.

    Sampling by priority [Schaul et al. 2016]:
    prioritized: True: in proportion to priority ** alpha, where each row of a batch is sampled from its own stratum.
        "independent": each row is sampled from the whole. alpha: default 0.6. priority_offset: is added to each
        priority; default 1e-6. Only the ratios of priorities matter, not their unit.
    beta: the exponent of a batch's importance weights: a number, or (first, last, steps) or (first, last, steps,
        begin), which goes from first to last in that many calls of `sample`; default 0.4. weight_norm: what weights are
        divided by: "batch": the batch's largest; "memory": the largest that any transition would have; "none".
    A field "priority", one float32, is a transition's first priority: 0 or more, or NaN for none, which check_nan
        allows. first_priority: that of a transition without one: "window", the default: the largest in the buffer, or 1
        if there is none; "ever": the largest that was ever given, at least 1, as in the paper (and in the preset
        "apex-dqn"): then a single outlier makes all later transitions be sampled first.
    eviction: which transitions make room for others, and leave in `trim`: "oldest", or "priority": drawn with
        probabilities in proportion to priority ** evict_alpha, for prioritized buffers of layout "rows" without
        sequences. Ids then follow no order, and `gather` has zeros and the id -1 in place of a transition that is not
        there. evict_alpha: -10 to 0; default -0.4.

    Several steps, and frames that are stored once:
    n_step: the number of steps, 1 to 64, that `add` joins into one transition: rewards are summed with gamma, and
        next_obs is n steps later, or where the episode ended. Above 1 there is a field "discount", float32: gamma to
        the power of the number of steps, or 0 if the task ended. It is added to `fields` if it is not there.
    frame_stack: the number of frames, 1 to 16, of which obs and next_obs are stacks. Above 1 the default layout is
        "frames".
    layout: "frames" stores each frame of an episode once, and makes a batch's stacks of them. "rows" stores each
        transition as it is.
    stack_axis: "first" or "last". stack_pad: the first stacks of an episode begin with zeros ("zero", the default) or
        with copies of its first frame ("repeat").
    extra_frames: the number of frames stored in addition to one per transition, and how far back a transition may link.
        Default: capacity / 64, or if more, the number that num_envs environments, or 64, need so that no frame is
        stored twice.
    observations: "stacks": obs and next_obs are given as batches have them. "frames": only the newest frame is given,
        and `fields` or the spaces describe that; in a batch it has one axis more.

    sequences: True: there is a field "previous", which is not given but filled in, and `sample_sequences` samples
        successive transitions. It is added to `fields` if it is not there. (length, every), for prioritized buffers:
        so does every `length` transitions of an episode, beginning with each `every`-th of them from the first on, and
        no others. The last ones end with the episode. every=None: sequences begin where episodes do. For this a field
        "priority" is filled in, too: 0 where no sequence ends, and priority_offset is 0. The last transition before a
        `reset` amid an episode ends a sequence with n_step above 1 alone.
    keep_steps: True: `gpureplay.data` can write the steps of episodes, also where transitions are of several. This is
        sequences=True, and with n_step above 1 a field "step_reward", one float32, the reward of a transition's first
        step, which `add` fills in. Trainings in the library's threads do not, and refuse a buffer with that field.

    action_mask: True: each transition has the actions that next_obs allows, as bits, in a field "next_action_mask", and
        a `DQN` takes the best of these alone, and nothing where there are none. `add` reads the mask, (num_actions,)
        bools, in info["action_mask"], in next_obs["action_mask"] of a Dict space, which is not stored as an
        observation then, or as next_action_mask=env.action_masks(). The action space is Discrete.

    hindsight: a `Hindsight`: most sampled transitions get goals that were achieved later, and their rewards. A batch
        has `relabeled` then. This is sequences=True.

    With n_step above 1, layout "frames" or a field "previous" `add` tracks episodes: see `Writer.add`. "previous", one
    int64, is the id of the same environment's transition before, if that is of the same episode. An episode's first
    transition has -1, or -2 - the id of the last transition of the episode before.

    Any number of threads may call. Those in `add` or `extend` wait for each other; with a `writer` for each thread they
    need not.
    """

    _kind = "buffer"

    def __init__(self, capacity: int | None, fields: Any, action_space: Any = None, *, preset: str | None = None,
                 device: str | TorchDevice | Device = "auto", num_envs: int = 1, autoreset: Any = None,
                 min_size: int | None = None, max_batch: int | None = None, gamma: float | None = None,
                 reward_clip: float | None = None, distinct: bool = False, seed: int | None = None,
                 block_rows: int | None = None, flush: Flush | None = None, check_nan: bool = True,
                 prioritized: Prioritized | None = None, alpha: float | None = None,
                 beta: Schedule | None = None, weight_norm: WeightNorm | None = None,
                 priority_offset: float | None = None, n_step: int | None = None, frame_stack: int | None = None,
                 layout: Layout | None = None, stack_axis: StackAxis | None = None, stack_pad: StackPad | None = None,
                 extra_frames: int | None = None, observations: Observations = "stacks",
                 sequences: bool | tuple[int, int | None] = False,
                 keep_steps: bool = False, eviction: Eviction | None = None, evict_alpha: float | None = None,
                 first_priority: FirstPriority | None = None, flatten: bool = False,
                 hindsight: Hindsight | None = None, action_mask: bool = False):
        given = locals()
        settings = {name: given[name] for name in BUFFER_SETTINGS}
        self._masks = Masks(fields, action_space) if flag("action_mask", action_mask) else None
        self._flattener, self._spec, self._goals = _parts_of(capacity, fields, action_space, preset, settings, flatten,
                                                             hindsight, self._masks)
        if seed is None:
            self._spec.config.seed = next(_seeds)
        self._epochs = itertools.count()
        self._obs_space, self._action_space = fields if hasattr(fields, "sample") else None, action_space
        self._tracks_episodes = tracks_episodes(self._spec)
        self._is_prioritized = bool(self._spec.config.prioritized)
        self.fields = self._spec.fields
        self.device = as_device(device)
        self.capacity: int = self._spec.config.capacity
        self._waits = self.device._waits
        self._finish = None if self._goals is None or not self._goals.needs_function else self._goals.relabel
        if self._finish is not None and self.device.is_cuda:
            raise InvalidArgument(f"device is {self.device.name} and hindsight has a function as reward, which reads "
                                  "host memory; reward must be \"sparse\", \"distance\" or \"nearness\", or "
                                  "\"unchanged\", with which you compute those of the rows that are `relabeled`")
        self._batches = batches = Batches(self.fields, self.device, self._goals is not None, self._finish)
        left_to_python = self.device.is_cuda or self._waits or self._finish is not None
        self._sampling = (None if left_to_python else Batch, batches.first_name, batches.last_name,
                         batches.of_addresses, Reference)
        self._users: WeakItems[Handle] = WeakItems()  # writers and learners, which end with the buffer
        note_library_threads()
        create = functools.partial(self.device._call, lib.gpur_replay_create, ctypes.addressof(self._spec.config))
        super().__init__(create, lib.gpur_replay_destroy)
        self._autoreset, self._writer = autoreset, Writer(self, num_envs, autoreset)
        self._writer._kind = "buffer"  # in messages: closing the buffer closed it
        self._adder, self._extender = self._writer._adder, self._writer._extender
        self.num_envs = self._writer.num_envs

    @classmethod
    def for_env(cls, capacity: int | None, env: Any, *, autoreset: Any = None,
                **options: Unpack[BufferOptions]) -> ReplayBuffer:
        """A buffer for the steps of a Gymnasium Env or VectorEnv. Its spaces, num_envs and autoreset mode
        (metadata["autoreset_mode"]) are read; nothing else is done with it. `autoreset` overrides its mode; `options`
        are the constructor's other arguments.

        TypeError: `env` is neither. ValueError: a vector that does not say how it resets, and no `autoreset`."""
        found = environment_of(env, autoreset)
        return cls(capacity, found.observation_space, found.action_space, num_envs=found.num_envs,
                   autoreset=found.autoreset, **options)

    # Adding transitions.

    def add(self, *, info: Any = None, final_obs: Any = None, **values: Any) -> int:
        """Adds one step of every environment: each field of the schema by name, (num_envs, ...). With one environment
        the first axis may be left out. A missing `truncated` means that none was. See `Writer.add`.

        Returns how many transitions the step made, or with n_step above 1 how many it completed."""
        added = self._writer._add(values, info, final_obs)
        self._adder = self._writer._adder  # the first step may have decided how the environment resets
        return added

    def extend(self, *, stream: Any = None, **values: Any) -> int:
        """Adds finished transitions: each field of the schema by name, (count, ...). See `Writer.extend`. Returns
        count."""
        return self._writer._extend(values, stream)

    def flush(self) -> None:
        """Makes all transitions added so far visible to the next `sample`. flush="auto" does this by itself."""
        self._writer.flush()

    def reset(self, envs: Any = None) -> None:
        """Tells that the caller has reset the environments, or those in `envs`: their next step begins new episodes.
        Stored transitions stay. See `Writer.reset`."""
        self._writer.reset(envs)

    def writer(self, num_envs: int = 1, autoreset: Any = None) -> Writer:
        """Makes one more source of transitions, for one more thread. autoreset: None: the buffer's, as its constructor
        or `for_env` got it; if it got none, the default for num_envs.

            writer = buffer.writer(num_envs=2)
        """
        writer = Writer(self, num_envs, self._autoreset if autoreset is None else autoreset)
        writer._buffer = self
        return writer

    def _close_writer(self, why: str) -> None:
        """Closes the buffer's own writer, since others write from now on. Stored transitions stay."""
        self._writer.close()
        self._writer._kind, self._writer._closed_by = "writer", why

    # Sampling.

    def sample(self, batch_size: int, *, out: Batch | None = None, beta: float | None = None,
               stream: Any = None) -> Batch:
        """Samples a batch: uniformly, or by priority.

        out: a batch of this buffer, of batch_size transitions. Its memory is filled again, and it is returned, which
            saves making a new batch. As with NumPy's `out`, its arrays are overwritten, and so are all arrays and
            tensors that share their memory.
        beta: the exponent of the importance weights from this call on, for a prioritized buffer.
        stream: CUDA: the stream that waits until the batch is filled: a cudaStream_t as an int, or a stream of PyTorch
            or CuPy. None: whatever reads the arrays sees to that. The stream must outlive the batch: see `Batch`.

        TooFew: the buffer is empty, or has had fewer than min_size transitions, or with distinct=True has fewer than
        batch_size. InvalidArgument: batch_size is above max_batch, or `out` is of another buffer or size. Then beta
        stays as it was, too. WouldBlock: another library holds an array of `out` by DLPack, as every tensor on CUDA
        does, so nothing was sampled."""
        count = integer("batch_size", batch_size)
        if out is not None:
            self._refuse_out(out, count)
        if beta is not None:
            self._refuse_sample(count, stream)
            self.beta = beta
        if out is None:
            return self._enqueue(lib.gpur_replay_sample, stream, count, stream_of(stream))
        self._call(lib.gpur_replay_sample_into, stream_of(stream), out._handle)
        self._hold_refilled(out, stream)
        if self._finish is not None:
            self._finish(out)
        return out

    def sample_sequences(self, batch_size: int, length: int | None = None, *, min_length: int | None = None,
                         across_episodes: bool | None = None, last_ids: Sequence[int] | np.ndarray | None = None,
                         out: SequenceBatch | None = None, stream: Any = None) -> SequenceBatch:
        """Samples sequences of successive transitions of an environment, as (batch_size, length, ...) arrays, the
        oldest transition first, with a mask and the first transitions of episodes: see `SequenceBatch`. The buffer
        needs sequences=True, or a field "previous" with such values.

        The last transition of a sequence is sampled: uniformly, or by priority, and the ones before it are found. All
        that have min_length - 1 transitions before them are possible, so complete sequences are uniform. By priority,
        all transitions of a sequence have the importance weight of the last one.
        `update_priorities(np.asarray(batch.id)[:, -1], ...)` sets the priorities of complete sequences.

        length: default: that of sequences=(length, every). batch_size x length: at most max_batch.
        min_length: the fewest transitions of a sequence. Default: length, so that all are complete; with
            across_episodes=False 1, so that those near the beginning of an episode are shorter, as the mask shows.
            Above 1 a sequence can be missing: its arrays are zeros and its mask is False throughout. This happens where
            64 draws find no transition with so many before it, as when the buffer holds too few, or all episodes are
            shorter.
        across_episodes: True: sequences go on from one episode of the environment to the next. False: they begin at the
            first transition of an episode at the earliest. Default: True, or with sequences=(length, every) False.
        last_ids: (batch_size,) the ids of the last transitions, in place of sampled ones. Sequences with fewer than
            min_length transitions are missing. The first transitions cannot be chosen: transitions are linked to those
            before them alone.
        out: a batch of as many sequences of this length, to be filled again. stream: see `sample`.

        Errors are as for `sample`, and for last_ids as for `gather`."""
        ends = self._spec.ends
        if length is None:
            if ends is None:
                raise TypeError("length is None; it must be an int, or the buffer made with sequences=(length, every)")
            length = ends[0]
        if across_episodes is None:
            across_episodes = ends is None
        count, rows = integer("batch_size", batch_size), integer("length", length)
        config, ids = _c_api.SequenceConfig(), None if last_ids is None else id_array(last_ids)
        self._refuse_sequences(count, rows)
        check(lib.gpur_sequence_config_init(ctypes.addressof(config), ctypes.sizeof(config)))
        config.batch, config.length = count, rows
        config.across_episodes = flag("across_episodes", across_episodes)
        fewest = (rows if across_episodes else 1) if min_length is None else min_length
        config.min_length = integer("min_length", fewest, 1, rows)
        if ids is not None and len(ids) != count:
            raise ValueError(f"last_ids has {len(ids)} ids and batch_size is {count}; they must be equal")
        config.last_ids = None if ids is None else address_of(ids)
        if out is not None:
            return self._sample_sequences_into(config, out, stream)
        reference = Reference()
        reference.hold(stream)
        self._call(lib.gpur_replay_sample_sequences, ctypes.addressof(config), stream_of(stream), reference.out)
        return self._batches.of_sequences(reference, count, rows)

    def _refuse_sequences(self, batch_size: int, length: int) -> None:
        """Says in Python's words what the library would refuse in those of its C structures."""
        most = max_batch_of(self._spec.config)
        if batch_size < 1 or length < 1 or batch_size * length > most:
            raise InvalidArgument(f"batch_size is {batch_size} and length {length}; both must be 1 or more, and "
                                  f"batch_size x length at most max_batch = {most} (a setting of the buffer)")
        if all(field.name != "previous" for field in self.fields):
            raise InvalidArgument("the buffer has no field \"previous\", which sequences follow; it must be made with "
                                  "sequences=True")

    def _sample_sequences_into(self, config: _c_api.SequenceConfig, out: SequenceBatch, stream: Any) -> SequenceBatch:
        if not isinstance(out, SequenceBatch) or out._source is not self._batches:
            raise InvalidArgument(f"out is {out!r}; it must be a batch of sequences that this buffer sampled, or None")
        if out.id.shape != (config.batch, config.length):
            raise InvalidArgument(f"batch_size and length are {(config.batch, config.length)} and those of out are "
                                  f"{out.id.shape}; they must be equal")
        self._call(lib.gpur_replay_sample_sequences_into, ctypes.addressof(config), stream_of(stream), out._handle)
        self._hold_refilled(out, stream)
        return out

    def _hold_refilled(self, out: Batch, stream: Any) -> None:
        out._reference.streams = ()  # the library has waited for them
        out._reference.hold(stream)
        if self._waits:
            out.wait()

    def _refuse_out(self, out: Batch, count: int) -> None:
        if isinstance(out, SequenceBatch):
            raise InvalidArgument(f"out is {out!r}; it must be a batch that `sample` or `gather` made, or None")
        if not isinstance(out, Batch):
            raise TypeError(f"out is a {type(out).__name__}; it must be a batch that this buffer sampled, or None")
        if out._source is not self._batches:
            raise InvalidArgument(f"out is {out!r}, which another buffer sampled; it must be a batch of this one")
        if len(out) != count:
            raise InvalidArgument(f"batch_size is {count} and out has {len(out)} transitions; they must be equal")

    def gather(self, ids: Sequence[int] | np.ndarray, *, stream: Any = None) -> Batch:
        """The transitions of these ids, in their order. Duplicates are allowed. Evicted: a transition that was
        overwritten. InvalidArgument: an id that was not given out yet.

            batch = buffer.sample(256)
            same = buffer.gather(batch.id)
        """
        wanted = id_array(ids)
        return self._enqueue(lib.gpur_replay_gather, stream, len(wanted), address_of(wanted), stream_of(stream))

    def __getitem__(self, where: int | slice | Sequence[int] | np.ndarray) -> Batch:
        """The transitions in these places among those that can be sampled, as `gather` makes a batch of them: an int, a
        slice or an array of ints. 0 is the oldest, -1 the newest. An int makes a batch of one.

        IndexError: there is no such place. InvalidArgument: more than max_batch, or none; or eviction is "priority".
        Evicted: another thread's transitions took the place of one meanwhile."""
        return self.gather(_ids_at(self._window(), where, max_batch_of(self._spec.config)))

    __iter__ = __reversed__ = __contains__ = None  # `epoch` gives batches; Python would ask for one place at a time

    def epoch(self, batch_size: int, *, shuffle: bool = True, seed: int | None = None,
              drop_last: bool = False) -> Iterator[Batch]:
        """Batches of all transitions that can be sampled now, each of which comes once. Those that are added meanwhile
        do not come.

        shuffle: in a random order; False: the oldest first. seed: of that order. None: it follows from the buffer's
            seed and the number of its epochs so far, so that each has another.
        drop_last: leaves out the last batch if it would have fewer than batch_size.

        Evicted, from the iterator: a transition that has not come yet was overwritten, or removed by `trim` or
        `clear`. InvalidArgument: batch_size is above max_batch, or eviction is "priority"."""
        count, window = self._batch_size(batch_size), self._window()
        ids = np.arange(window.start, window.stop)
        seeds = [self._spec.config.seed, next(self._epochs)] if seed is None else integer("seed", seed, 0)
        if flag("shuffle", shuffle):
            np.random.default_rng(seeds).shuffle(ids)
        end = len(ids) - len(ids) % count if flag("drop_last", drop_last) else len(ids)
        return (self.gather(ids[first:first + count]) for first in range(0, end, count))

    def _window(self) -> range:
        """The ids of the transitions that can be sampled, the oldest first."""
        if self._spec.config.eviction == _c_api.EVICT_BY_PRIORITY:
            raise InvalidArgument("eviction is \"priority\", so that transitions are in no order; it must be "
                                  "\"oldest\"")
        stats = self.stats
        return range(stats.first_id, stats.first_id + stats.visible)

    def _batch_size(self, batch_size: int) -> int:
        count, most = integer("batch_size", batch_size), max_batch_of(self._spec.config)
        if not 1 <= count <= most:
            raise InvalidArgument(f"batch_size is {count}; it must be 1 to max_batch = {most}")
        return count

    def _enqueue(self, function: Any, stream: Any, count: int, *arguments: Any) -> Batch:
        reference = Reference()
        reference.hold(stream)
        self._call(function, count, *arguments, reference.out)
        return self._batches.of_reference(reference, count)

    def _refuse_sample(self, batch_size: int, stream: Any) -> None:
        """Refuses a `sample` before beta is set, because setting beta ends its schedule, which cannot be undone."""
        self._require_priorities()
        self._batch_size(batch_size)
        if stream_of(stream) is not None and not self.device.is_cuda:
            raise InvalidArgument(f"stream is {stream}; on the CPU it must be None")
        if self._invoke(lib.gpur_replay_size) == 0:
            raise TooFew("the buffer is empty; a sample needs at least 1 transition")
        if not self._invoke(lib.gpur_replay_can_sample):
            raise TooFew(f"fewer transitions have become visible so far than min_size = {self._spec.config.min_size}")

    # Changing transitions.

    def write_field(self, ids: Any, /, *, stream: Any = None, **values: Any) -> None:
        """Writes new values of one field of transitions, such as `write_field(batch.id, reward=rewards)`. All later
        samples see them; batches that were sampled before stay as they are.

        ids: (count,) or (batch_size, length) integers. If one appears twice, its last value counts. Those of
            transitions that were overwritten meanwhile are skipped, and in a prioritized buffer counted as stale in
            `priority_stats`, and so is -1, which marks in a batch that there is none.
        values: one field by its name, (*ids.shape, ...). Rewards are clipped as reward_clip says. Both arrays are in
            host memory, or both in the memory of the buffer's CUDA device, as for `update_priorities`. Those on the
            device are not searched for NaN. There are at most max_batch ids.
        stream: for device arrays, the stream that made them, as for `ReplayBuffer.extend`.

        Not to be written are "previous", "priority" (see `update_priorities`), "terminated" and "discount" where there
        are both, and for layout "frames" obs and next_obs.

        TypeError, ValueError: such a field, or none of the buffer's; another dtype or shape; in host memory a number
        that is NaN or infinite, an action that a learner of the buffer cannot train on, or an id that was not given out
        yet. Nothing was written."""
        if len(values) != 1:
            raise TypeError(f"write_field got {', '.join(values) or 'no field'}; it must get one field by its name")
        (name, value), = values.items()
        index = next((index for index, field in enumerate(self.fields) if field.name == name), None)
        if index is None:
            names = ", ".join(field.name for field in self.fields)
            raise TypeError(f"the buffer has no field {name!r}; its fields are {names}")
        field, stream, device = self.fields[index], stream_of(stream), self.device._if_cuda
        given: list[Any] = [read_array(one, array, device, stream) for one, array in ((_IDS, ids), (field, value))]
        if len(given[0].shape) not in (1, 2):
            raise ValueError(f"ids has shape {given[0].shape}; it must be (count,) or (batch_size, length)")
        if given[1].shape != (wanted := (*given[0].shape, *field.shape)):
            raise ValueError(f"{name} has shape {given[1].shape}; it must be {wanted}")
        if any(isinstance(array, DeviceArray) for array in given):
            addresses, stream = _on_device(given, (_IDS, field), stream)
        else:
            given, addresses = _on_host(given, (_IDS, field))
        self._call(lib.gpur_replay_write_field, index, math.prod(given[0].shape), *addresses, stream)

    # Priorities. Buffers that were not made with prioritized=True or "independent" refuse these calls. Any thread may
    # call them; sampling, training and updates run one after another.

    def _require_priorities(self) -> None:
        """Closed: the buffer was closed. InvalidArgument: it has no priorities."""
        self._open_handle()
        if not self._is_prioritized:
            raise InvalidArgument("this buffer has no priorities; make it with prioritized=True or \"independent\"")

    def update_priorities(self, ids: Any, priorities: Any, *, stream: Any = None) -> None:
        """Gives transitions new priorities, such as the size of their TD errors. All later samples see them.

        ids: (count,) integers, as `batch.ids` has them. If one appears twice, its larger priority counts. Those of
            transitions that were overwritten meanwhile are skipped and counted in `priority_stats`, and so is -1, which
            marks in a batch that there is none.
        priorities: (count,), 0 or more and finite, such as the absolute TD errors; float32, or numbers that fit in it.
            Both arrays are in host memory, or both in the memory of the buffer's CUDA device (DLPack,
            __cuda_array_interface__; int64 and float32), which needs no copy to the host. Those on the device cannot be
            looked at without waiting: absolute values count, and what is NaN or infinite, and every id that no
            transition has, is skipped and counted in `priority_stats`. count is at most max_batch.
        stream: for device arrays, the stream that made them, as for `ReplayBuffer.extend`.

        TypeError, ValueError: in host memory, a priority that is negative, NaN or infinite, or an id that was not given
        out yet; another dtype or shape, or only one of the arrays on the device. Nothing was updated."""
        if not self._is_prioritized:
            self._require_priorities()
        if stream is None and _update_in_c(self, ids, priorities):
            return
        stream, device = stream_of(stream), self.device._if_cuda
        if stream is None and device is None and _update_in_c(self, _as_array(ids), _as_array(priorities)):
            return
        given: list[Any] = [read_array(field, value, device, stream)
                            for field, value in ((_IDS, ids), (_PRIORITIES, priorities))]
        _refuse_shapes(given[0].shape, given[1].shape)
        if any(isinstance(array, DeviceArray) for array in given):
            addresses, stream = _on_device(given, (_IDS, _PRIORITIES), stream)
        else:
            given, addresses = _on_host(given, (_IDS, _PRIORITIES))
        self._call(lib.gpur_replay_update_priorities, given[0].shape[0], *addresses, stream)

    def get_priorities(self, ids: Any) -> np.ndarray:
        """The priorities of these transitions, as last given, with priority_offset and without alpha: (count,) float32
        in host memory. The call waits for them. count: 1 to max_batch.

        Evicted: a transition that was overwritten. InvalidArgument: an id that was not given out yet.

            priorities = buffer.get_priorities(batch.id)
        """
        self._require_priorities()
        wanted = _converted(np.asarray(ids), _IDS)
        if wanted.ndim != 1:
            raise ValueError(f"ids has shape {wanted.shape}; it must be (count,)")
        found = np.empty(len(wanted), np.float32)
        self._call(lib.gpur_replay_get_priorities, len(wanted), address_of(wanted), found.ctypes.data)
        return found

    @property
    def alpha(self) -> float:
        """Sampling is in proportion to priority ** alpha. Assigning recomputes all of them in one pass over the buffer.
        Reading costs as much as `priority_stats`."""
        return self.priority_stats.alpha

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        self._require_priorities()
        self._call(lib.gpur_replay_set_alpha, real("alpha", alpha))

    @property
    def beta(self) -> float:
        """The exponent of the importance weights of the next `sample`. Assigning ends the buffer's schedule, if it has
        one. Reading costs as much as `priority_stats`. A learner has a beta of its own."""
        return self.priority_stats.beta

    @beta.setter
    def beta(self, beta: float) -> None:
        self._require_priorities()
        self._call(lib.gpur_replay_set_beta, real("beta", beta))

    @property
    def priority_stats(self) -> PriorityStats:
        """Statistics of all priorities after the work that was enqueued before, which is waited for. It takes
        milliseconds for millions of transitions."""
        self._require_priorities()
        stats = _c_api.PriorityStats()
        self._call(lib.gpur_replay_get_priority_stats, ctypes.addressof(stats))
        return read_tuple(PriorityStats, stats)

    def check_priorities(self) -> int:
        """The number of wrong nodes in the tree of priorities. It is 0, unless something wrote over the device's
        memory. The call costs as much as `priority_stats`.

            assert buffer.check_priorities() == 0
        """
        self._require_priorities()
        wrong = ctypes.c_int64()
        self._call(lib.gpur_replay_check_priorities, ctypes.addressof(wrong))
        return wrong.value

    # Files.

    def save(self, path: str | os.PathLike[str], progress: Progress | None = None) -> None:
        """Writes all transitions and each writer's open episodes. The file at `path` is always the old one or the new
        one, and complete. Sampling, training and adding wait meanwhile.

        progress: is called with the bytes done and the bytes in all. False ends the save, as an exception does. It must
        not use the buffer. Ctrl-C ends the save at once; the old file stays.

        FileError: the file cannot be written. Unavailable: the library was built without cJSON or xxHash."""
        call_with_file(self, lib.gpur_replay_save, path, progress, inside=self._writers_held)

    @contextlib.contextmanager
    def _writers_held(self) -> Iterator[None]:
        """Tells the library which environments only reset in their next step, and lets none take a step meanwhile."""
        writers = [user for user in self._users if isinstance(user, Writer)]
        with contextlib.ExitStack() as locks:
            for writer in sorted(writers, key=id):
                locks.enter_context(writer._lock)
                locks.enter_context(writer._shared)
                writer._write_ended()
            yield

    def load(self, path: str | os.PathLike[str], progress: Progress | None = None) -> None:
        """Replaces all transitions by those of a file. The whole file is checked before anything changes.

        These settings must equal the file's: fields, n_step, gamma, reward_clip, prioritized or not (and then
        priority_offset), eviction, and layout. For eviction "priority" also capacity. For layout "frames" also
        capacity, frame_stack, stack_axis, stack_pad, extra_frames, block_rows and max_batch. Otherwise any capacity
        will do that has room for the file's transitions, which keep their ids and priorities. Sampling continues as
        after the save if seed, capacity, distinct, "independent", weight_norm, first_priority, evict_alpha,
        block_rows, flush and max_batch are the same, too. alpha and beta, with its schedule, become the file's.

        The file's transitions are loaded whatever num_envs this buffer has. The states of the file's writers go, in the
        order in which the writers were made, to the existing writers and then to new ones that have the num_envs of the
        file's, and where the writer tracks episodes its autoreset and `observations`, too. There the open episodes
        continue with the next step, whose `obs` must be the last observation; call `reset` if the environments were
        reset meanwhile. Where it does not track episodes, environments under "next_step" continue where they were, too.
        Else the open episodes are cut off, with a RuntimeWarning that says how many, and why; `stats.cut_on_load`
        counts them, and `file_info(path).envs` is the number of environments in the file.

        progress: as for `save`. Ctrl-C ends the load only before the first change; after it the load completes.

        InvalidArgument: a setting differs, or there is no room. FileError: the file is of another kind, or damaged.

            buffer.save("replay.safetensors")
            buffer.load("replay.safetensors")
        """
        def on_end(refusal: GpureplayError | None) -> None:
            if refusal is None or isinstance(refusal, FileError):
                for user in self._users:
                    if isinstance(user, Writer):
                        user._after_load(in_full=refusal is None)

        before = self.stats.cut_on_load
        call_with_file(self, lib.gpur_replay_load, path, progress, on_end)
        cut = self.stats.cut_on_load - before
        if cut > 0:
            warnings.warn(f"{cut} open episode{'s' if cut > 1 else ''} of {os.fspath(path)} "
                          f"{'are' if cut > 1 else 'is'} cut off: {self._why_cut(file_info(path))}. All transitions "
                          "are loaded", RuntimeWarning, stacklevel=2)

    def _why_cut(self, file: FileInfo) -> str:
        """Why writers of this buffer cannot go on where those of the file were."""
        writers = [user for user in self._users if isinstance(user, Writer) and not user.closed]
        envs = sum(writer.num_envs for writer in writers)
        if file.envs != envs:
            return f"the file has the state of {file.envs} environments, and this buffer has {envs}"
        if file.writers != len(writers):
            return (f"the file has the state of {file.writers} writers with {envs} environments together, and this "
                    f"buffer has {len(writers)}")
        if self._spec.config.frame_stack > 1:
            return ("the file's environments take their steps in another way than this buffer's, with autoreset="
                    f"{self._writer.autoreset!r} and observations={self.config['observations']!r}")
        return f"the file's environments have another autoreset than this buffer's, {self._writer.autoreset!r}"

    def clear(self) -> None:
        """Removes all transitions, also those that are not visible yet. Ids are not given out again: the next
        transition has the one after the last. Open episodes go on, and what `n_step` has joined of them so far is kept;
        call `reset` to begin new ones. min_size counts what was removed, so that `sample` goes on with the next
        transition. Until then it raises TooFew, as does training: clear no buffer that a run trains on."""
        self._flush_all()
        self.trim(0)

    def _flush_all(self) -> None:
        with contextlib.suppress(Closed):  # a run has writers of its own in place of the buffer's
            self.flush()

    def trim(self, keep: int) -> None:
        """Evicts transitions, the oldest or as `eviction` says, until at most `keep` are left, 0 to capacity. A
        buffer that is trimmed now and then to less than its capacity has a soft capacity: adding takes the room above
        it, and overwrites nothing between two trims unless the capacity itself is reached [Horgan et al. 2018, section
        4.1]."""
        self._call(lib.gpur_replay_trim, integer("keep", keep))

    # State.

    def __len__(self) -> int:
        self._open_handle()
        return int(self._invoke(lib.gpur_replay_size))

    def __bool__(self) -> bool:
        """True also for an empty buffer."""
        return True

    @property
    def check_nan(self) -> bool:
        """Whether numbers that are NaN or infinite are refused."""
        return bool(self._spec.config.check_finite)

    @property
    def is_full(self) -> bool:
        """Whether adding more overwrites the oldest transitions. For layout "frames" that may begin before there are
        `capacity` transitions: when the room for frames is used up (see extra_frames). There a buffer that `trim`
        has made smaller counts as full, too."""
        size, has_frames = len(self), self._spec.config.layout == _c_api.LAYOUT_FRAMES
        return size == self.capacity or (has_frames and size > 0 and self.stats.evicted > 0)

    @property
    def can_sample(self) -> bool:
        """Whether `sample(1)` would succeed: there have been min_size transitions. A larger batch of a
        distinct buffer may still raise TooFew."""
        self._open_handle()
        return bool(self._invoke(lib.gpur_replay_can_sample))

    @property
    def stats(self) -> Stats:
        """Counts and times since creation."""
        stats = _c_api.ReplayStats()
        self._call(lib.gpur_replay_get_stats, ctypes.addressof(stats))
        return read_tuple(Stats, stats)

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the buffer by the constructor's names, including those of the preset and the defaults. None:
        a setting that has no meaning for this buffer. A copy. alpha and beta are those at creation."""
        return {**settings_of_buffer(self._spec), "hindsight": None if self._goals is None else self._goals.given,
                "device": self.device.name, "num_envs": self.num_envs,
                "autoreset": self._writer.autoreset}

    @staticmethod
    def plan(capacity: int | None, fields: Any, action_space: Any = None, *, preset: str | None = None,
             **settings: Unpack[PlanSettings]) -> Plan:
        """The memory that such a buffer would need. Nothing is allocated. `settings` are the constructor's."""
        unknown = settings.keys() - (ReplayBuffer.__init__.__kwdefaults__ or {}).keys()
        if unknown:
            raise TypeError(f"{sorted(unknown)} are no settings of a buffer; they are {', '.join(BUFFER_SETTINGS)}")
        given, plan = dict(settings), _c_api.ReplayPlan()
        flatten, hindsight = given.pop("flatten", False), given.pop("hindsight", None)
        masks = Masks(fields, action_space) if flag("action_mask", given.pop("action_mask", False)) else None
        spec = _parts_of(capacity, fields, action_space, preset, given, flatten, hindsight, masks)[1]
        check(lib.gpur_replay_plan_bytes(ctypes.addressof(spec.config), ctypes.addressof(plan)))
        return read_tuple(Plan, plan)

    def close(self) -> None:
        """Closes the buffer's writers and learners and frees its memory. Batches that are still referenced stay
        valid."""
        self._detach()
        for user in self._users:
            user.close()
            user._closed_by = "was closed" if user is self._writer else "was closed with its buffer"
        self._owner.destroy()

    def __repr__(self) -> str:
        if self.closed:
            return "<gpureplay.ReplayBuffer, closed>"
        state = f"{len(self)} of {self.capacity} transitions on {self.device.name}"
        fields = ", ".join(f"{field.name} {field.dtype}{list(field.shape) or ''}" for field in self._spec.given)
        names = "num_envs autoreset prioritized n_step layout gamma max_batch"
        return f"<gpureplay.ReplayBuffer, {state}; {fields}; {settings_text(self.config, names)}>"


def _parts_of(capacity: Any, fields: Any, action_space: Any, preset: Any, settings: Settings, flatten: Any,
              hindsight: Any, masks: Masks | None) -> tuple[Flattener | None, Spec, Goals | None]:
    """What the constructor's arguments say. `settings` are some of BUFFER_SETTINGS."""
    fields = fields if masks is None else masks.space
    flattener = Flattener(fields) if flag("flatten", flatten) else None
    given = fields_of(fields if flattener is None else flattener.box32, action_space)
    given += [] if masks is None else [masks.field]
    if hindsight is None:
        return flattener, make_spec(given, capacity, preset, settings), None
    spec = make_spec(given, capacity, preset, {**settings, "sequences": settings.get("sequences") or True})
    return flattener, *add_hindsight(spec, hindsight, flattener)


def _ids_at(window: range, where: Any, most: int) -> np.ndarray:
    """The ids in these places of a buffer's window, at most as many as a batch may have."""
    size = len(window)
    if isinstance(where, slice):
        places = np.arange(size)[where]
    elif isinstance(where, bool) or (places := np.atleast_1d(where)).ndim > 1 or (
            places.size and places.dtype.kind not in "iu"):
        given = f"{where!r}" if np.ndim(where) == 0 else f"an array {np.shape(where)} of {np.asarray(where).dtype}"
        raise TypeError(f"buffer[...] got {given}; it must be an int, a slice, or an array (count,) of ints")
    if not 1 <= len(places) <= most:
        raise InvalidArgument(f"buffer[...] got {len(places)} places; they must be 1 to max_batch = {most}")
    wrong = places[(places >= size) | (places < -size)]
    if len(wrong):
        raise IndexError(f"buffer[...] got {wrong[0]}; " + (
            f"its {size} transitions are 0 to {size - 1}, or -{size} to -1" if size else "the buffer is empty"))
    places = places.astype(np.int64)
    return window.start + np.where(places < 0, places + size, places)


def _as_array(value: Any) -> Any:
    """A host tensor as an array, which is faster than by DLPack. Anything else is returned as it is, and refused
    later."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__array__"):
        return value
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return value


def _refuse_shapes(ids: tuple[int, ...], priorities: tuple[int, ...]) -> None:
    if len(ids) != 1:
        raise ValueError(f"ids has shape {ids}; it must be (count,)")
    if priorities != ids:
        raise ValueError(f"priorities has shape {priorities}; it must be {ids}, as ids")


def _converted(array: np.ndarray, field: Field) -> np.ndarray:
    """Like `convert`, and accepts an empty list, which NumPy makes float64."""
    return convert(array if array.size else array.astype(field.dtype), field)


def _on_host(given: list[Any], fields: tuple[Field, Field]) -> tuple[list[Any], list[int]]:
    """Both arrays as the library reads them, and their addresses."""
    arrays = [_converted(array, field) for array, field in zip(given, fields)]
    return arrays, [address_of(array) for array in arrays]


def _on_device(given: list[Any], fields: tuple[Field, Field], stream: int | None) -> tuple[list[int], int | None]:
    """The addresses of both arrays, and the stream that makes them."""
    for array, field in zip(given, fields):
        if not isinstance(array, DeviceArray):
            raise TypeError(f"{field.name} is in host memory, and the other in a CUDA device's; both must be in the "
                            f"same")
        check_device_array(array, field)
    return [array.address for array in given], producer_stream(given, stream)
