# SPDX-License-Identifier: MIT
"""What the agents here show: a bar with the latest return while they train, and their learning curve as a picture."""

import time

_began = time.monotonic()


def show(steps, of, said):
    """One line, written over the one before."""
    bar, seconds = "#" * (20 * steps // of), time.monotonic() - _began
    print(f"\r[{bar:<20}] {steps:,} of {of:,} steps, {seconds:.1f} s, {said} ", end="", flush=True)


def draw(curve, path, goal=None):
    """curve: (environment steps, return) of each time that it was measured."""
    if not curve:
        return
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        print("no picture of the learning curve: pip install matplotlib")
        return
    figure = Figure()
    axes = figure.add_subplot(xlabel="environment steps", ylabel="mean return", title="CartPole-v1")
    axes.plot(*zip(*curve), "o-")
    if goal is not None:
        axes.axhline(goal, linestyle="--", color="tab:green")
    figure.savefig(path)
    print(f"learning curve: {path}")
