# SPDX-License-Identifier: MIT
"""What the agents here show: a bar with the latest return while they train, and their learning curve as a picture."""

import time

_began = time.monotonic()


def show(steps, of, said):
    """One line, written over the one before."""
    bar, seconds = "#" * (20 * steps // of), time.monotonic() - _began
    print(f"\r[{bar:<20}] {steps:,} of {of:,} steps, {seconds:.1f} s, {said} ", end="", flush=True)


def draw(curve, path, goal=None, title="CartPole-v1", quiet=False):
    """curve: (environment steps, return) of each time that it was measured. quiet: says nothing of it."""
    if not curve:
        return
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return quiet or print("no picture of the learning curve: pip install matplotlib")
    figure = Figure()
    axes = figure.add_subplot(xlabel="environment steps", ylabel="mean return", title=title)
    axes.plot(*zip(*curve), "o-")
    if goal is not None:
        axes.axhline(goal, linestyle="--", color="tab:green")
    try:
        figure.savefig(path)
    except OSError as error:  # a full disk, say: no reason to end a run
        return print(f"\nno picture of the learning curve: {error}")
    if not quiet:
        print(f"learning curve: {path}")
