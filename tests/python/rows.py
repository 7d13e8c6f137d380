# SPDX-License-Identifier: MIT
"""Transitions that tell which they are, for any schema."""

import numpy as np

DTYPES = ("float32", "float16", "uint8", "int32", "int64", "bool")
TRANSITION = {
    "obs": ((3,), "float32"), "action": ((), "int32"), "reward": ((), "float32"), "next_obs": ((3,), "float32"),
    "terminated": ((), "bool"), "truncated": ((), "bool"),
}


def column(number, first, count, shape, dtype):
    """(count, ...) of field `number`: every element follows from the row's and its own place."""
    size = int(np.prod(shape))
    grid = np.arange(first, first + count)[:, None] * 7 + np.arange(size) * 3 + number
    # float16 holds integers up to 2048 exactly
    kinds = {"bool": grid % 2, "uint8": grid % 251, "float16": grid % 2039 - 1000, "int64": grid * 2**33}
    return kinds.get(dtype, grid).astype(dtype).reshape(count, *shape)


def block(fields, first, count):
    """Rows first ... first + count - 1 of a schema {name: (shape, dtype)}."""
    return {name: column(number, first, count, *field) for number, (name, field) in enumerate(fields.items())}


def same(got, wanted):
    """Bit for bit, dtype and shape too."""
    got = np.asarray(got)
    return got.dtype == wanted.dtype and got.shape == wanted.shape and got.tobytes() == wanted.tobytes()
