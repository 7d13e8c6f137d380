# SPDX-License-Identifier: MIT
# The CUDA device. GPUREPLAY_HAS_CUDA tells whether it is built; without it device_none.c explains how to get it.
set(GPUREPLAY_HAS_CUDA OFF)
