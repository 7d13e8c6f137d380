# SPDX-License-Identifier: MIT
"""The random numbers of the library's games, for the games of other packages."""

import numpy

MASK = 2**64 - 1


class OurNumbers:
    """SplitMix64, as the games draw from it, with the names that the package calls."""

    def __init__(self, seed):
        self.state = seed

    def rand(self, *shape):
        if shape:
            return numpy.array([self.rand() for _ in range(*shape)])
        self.state = self.state + 0x9E3779B97F4A7C15 & MASK
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        return ((z ^ z >> 31) >> 11) * 2.0**-53

    def randint(self, low, high=None, size=None):
        if size:
            return numpy.array([self.randint(low, high) for _ in range(size)])
        low, high = (0, low) if high is None else (low, high)
        return low + int(self.rand() * (high - low))
