# SPDX-License-Identifier: MIT
"""Finished transitions into a buffer that stores each frame once, which takes them in blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from . import _c_api
from ._buffer import ReplayBuffer
from ._episodes import column
from ._inputs import address_of
from ._library import InvalidArgument, check, lib
from ._schema import PREVIOUS, Field
from ._writer import Writer

_OBSERVATIONS = ("obs", "next_obs")


class BlockWriter:
    """Appends transitions, whose observations are stacks. Where the buffer links them, they are successive ones of one
    environment."""

    def __init__(self, buffer: ReplayBuffer):
        config = buffer._spec.config
        if buffer._spec.ends is not None:
            raise InvalidArgument(f"sequences is {buffer._spec.ends} and the layout \"frames\", where finished "
                                  "transitions come in blocks, which do not say where sequences end; sequences must "
                                  "be True")
        self._fields, self._stack = buffer.fields, int(config.frame_stack)
        self._axis = 1 if config.stack_axis == _c_api.STACK_FIRST else -1
        self._format, self._sequence = ctypes.c_void_p(), 0
        check(lib.gpur_block_format_create(ctypes.addressof(config), ctypes.addressof(self._format)))
        self._writer: Writer = buffer.writer(1, "disabled")

    def append(self, rows: Mapping[str, np.ndarray], begins: np.ndarray) -> None:
        """begins: which rows begin an episode, (count,)."""
        count = len(begins)
        arrays = [self._column(field, rows, begins) for field in self._fields]
        frames, links = self._shared(*(column(field, rows[field.name], count) for field in self._fields
                                       if field.name in _OBSERVATIONS))
        fields = (ctypes.c_void_p * len(arrays))(*(None if array is None else address_of(array) for array in arrays))
        given = _c_api.BlockInput()
        given.sequence, given.rows, given.frames = self._sequence, count, len(frames)
        given.fields, given.frame_data, given.links = ctypes.addressof(fields), address_of(frames), address_of(links)
        block = np.empty(lib.gpur_block_max_bytes(self._format, count, len(frames)), np.uint8)
        size = ctypes.c_int64()
        check(lib.gpur_block_pack(self._format, ctypes.addressof(given), address_of(block), block.nbytes,
                                  ctypes.addressof(size)))
        self._writer._call(lib.gpur_writer_append_block, address_of(block), size.value, None)
        self._sequence += 1

    @staticmethod
    def _column(field: Field, rows: Mapping[str, np.ndarray], begins: np.ndarray) -> np.ndarray | None:
        if field.name in _OBSERVATIONS:
            return None
        if field == PREVIOUS:
            return np.where(begins, -1, 0)
        if field.name not in rows:  # `truncated`
            return np.zeros((len(begins), *field.shape), field.dtype)
        return np.ascontiguousarray(column(field, rows[field.name], len(begins)))

    def _shared(self, obs: np.ndarray, next_obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each frame once, and of each row which ones its stacks are. The oldest of a stack may be none: zeros."""
        stacks = np.stack([np.moveaxis(array, self._axis, 1) for array in (obs, next_obs)], axis=1)
        count, shape = len(stacks), stacks.shape[3:]
        found = np.ascontiguousarray(stacks).reshape(2 * count * self._stack, -1)
        raw = found.view(np.dtype((np.void, found.itemsize * found.shape[1])))[:, 0]
        _, first, links = np.unique(raw, return_index=True, return_inverse=True)
        is_zero = np.logical_and.accumulate(~found.view(np.uint8).any(axis=1).reshape(count, 2, self._stack), axis=2)
        is_zero[:, :, -1] = False  # the newest is there
        links = np.where(is_zero, -1, links.reshape(is_zero.shape)).astype(np.int32)
        return found[first].reshape(-1, *shape), np.ascontiguousarray(links)

    def close(self) -> None:
        self._writer.close()
        lib.gpur_block_format_destroy(self._format)
