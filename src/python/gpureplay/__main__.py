# SPDX-License-Identifier: MIT
"""python -m gpureplay: the same as python -m gpureplay.train."""

import sys

from .train import main

sys.exit(main())
