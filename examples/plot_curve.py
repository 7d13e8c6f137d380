# SPDX-License-Identifier: MIT
"""Draws a learning curve: python3 plot_curve.py CSV [PNG]. Without a PNG it goes beside the CSV. Needs matplotlib."""

import csv
import sys
from pathlib import Path


def read_columns(path):
    """The CSV as {column: [float]}; an empty cell is NaN."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name] or "nan") for row in rows] for name in (rows[0] if rows else ())}


def present(x, y):
    """The points of (x, y) whose y is there."""
    return zip(*[(a, b) for a, b in zip(x, y) if b == b]) if any(b == b for b in y) else ((), ())


def draw(columns, png):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (returns, losses) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 6), height_ratios=(3, 1))
    steps = columns["steps"]
    returns.plot(*present(steps, columns["train_return"]), color="tab:blue", label="training, last 100 episodes")
    returns.plot(*present(steps, columns["eval_return"]), "o-", color="tab:orange", label="greedy, 100 episodes")
    returns.axhline(475, color="tab:green", linestyle="--", linewidth=1, label="solved: 475")
    returns.set(ylabel="return", ylim=(0, 520), title="CartPole-v1, dueling double DQN")
    returns.legend(loc="best")
    losses.plot(*present(steps, columns["loss"]), color="tab:red", linewidth=0.8)
    losses.set(ylabel="loss", xlabel=f"environment steps ({columns['seconds'][-1]:.0f} s)")
    for axes in (returns, losses):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(png, dpi=120)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: plot_curve.py CSV [PNG]")
    path = Path(sys.argv[1])
    png = Path(sys.argv[2]) if len(sys.argv) == 3 else path.with_suffix(".png")
    columns = read_columns(path)
    if not columns:
        sys.exit(f"{path} has no rows yet; a curve needs at least one")
    draw(columns, png)
    print(png)


main()
