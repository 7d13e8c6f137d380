# SPDX-License-Identifier: MIT
"""Pictures of a folder of results: python3 bench/plot.py FOLDER [OUT]. PNG files go to OUT, which is FOLDER by default.

Reads every JSON that the benchmarks wrote, those beside other libraries too, and learning curves: JSON with "curves",
or CSV with steps, seconds and return. Exits with 77 when matplotlib is not here, and with 2 when the folder holds
nothing to draw.
"""

import csv
import json
import sys
import textwrap
from pathlib import Path

import plot_peers
from plot_axes import beside, finish, number_ticks, time_axis

# What the paper published [Parr 2018]: TITAN X (Pascal), TensorFlow 1. Numbers of its figures are read off them.
PAPER = "Parr 2018, TITAN X (Pascal)"
PAPER_SPEEDUP = {16: 30.54, 32: 54.87, 64: 67.08, 128: 114.41, 256: 114.35}  # table 1, percent
PAPER_STEP = {  # figure 4, seconds
    "in RAM": {16: 2530e-6, 32: 2730e-6, 64: 3160e-6, 128: 3700e-6, 256: 4500e-6},
    "in the GPU": {16: 1940e-6, 32: 1760e-6, 64: 1890e-6, 128: 1725e-6, 256: 2100e-6},
}
PAPER_APPEND = {250: 363e-6, 500: 129e-6, 1000: 62e-6, 2000: 37.5e-6, 4000: 30e-6}  # figure 3, seconds
PAPER_APPEND_RAM = 1.4e-6
PAPER_TRAINING = {32: 57.8, 128: 104.3}  # section 5, percent that the whole training was faster
COLOURS = {"in-RAM, as in the paper": "tab:red", "in-RAM, done well": "tab:orange",
           "in-device, a call a step": "tab:cyan", "in-device, 16 a call": "tab:cyan", "in-device": "tab:blue"}


def read_results(folder):
    """(head, {figure: [case]}) of the file that has matches, the report of a whole training, and curves from CSV."""
    head, figures, training = {}, {}, None
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            continue
        if document.get("curves"):
            training = document
        for case in document.get("cases", []):
            if "figure" in case:
                head = document
                figures.setdefault(case["figure"], []).append(case)
    return head, figures, training, [curve for path in sorted(folder.glob("*.csv")) for curve in read_curves(path)]


def read_curves(path):
    """A CSV of a training as a curve; none when it has other columns. An empty cell is left out."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    column = next((name for name in ("return", "train_return") if rows and name in rows[0]), None)
    if column is None or not {"steps", "seconds"} <= set(rows[0]):
        return []
    rows = [row for row in rows if row[column]]
    return [{"label": path.stem, "steps": [float(row["steps"]) for row in rows],
             "seconds": [float(row["seconds"]) for row in rows], "return": [float(row[column]) for row in rows]}]


def by_entrant(cases):
    """{entrant: [(x, what was measured)]}, x ascending."""
    lines = {}
    for case in sorted(cases, key=lambda case: case["x"]):
        for entrant in case["entrants"]:
            lines.setdefault(entrant["entrant"], []).append((case["x"], entrant))
    return lines


def with_interval(axes, points, name, value, low, high, **style):
    x, entrants = zip(*points)
    y = [value(e) for e in entrants]
    below = [max(0, v - low(e)) for v, e in zip(y, entrants)]
    above = [max(0, high(e) - v) for v, e in zip(y, entrants)]
    return axes.errorbar(x, y, yerr=(below, above), marker="o", capsize=3, label=name, color=COLOURS.get(name), **style)


def with_times(axes, cases):
    for name, points in beside(by_entrant(cases)):
        with_interval(axes, points, name, lambda e: e["seconds"], lambda e: e["low"], lambda e: e["high"])


def from_paper(axes, points, label, marker):
    axes.plot(list(points), list(points.values()), linestyle="--", marker=marker, color="0.45", label=label)


def batch_axis(axes, cases):
    ticks = sorted({case["x"] for case in cases} | set(PAPER_SPEEDUP))
    axes.set_xscale("log", base=2)
    number_ticks(axes, ticks)
    axes.set_xlabel("batch size")


def hollow(axes, points, colour):
    """White where the interval of the speed-up includes zero."""
    level = [(x, 100 * (e["ratio"] - 1)) for x, e in points if e["ratio_low"] <= 1 <= e["ratio_high"]]
    if level:
        axes.plot(*zip(*level), "o", color=colour, markerfacecolor="white", zorder=5)


def draw_speedup(axes, cases):
    lines = by_entrant(cases)
    for name, points in beside({name: points for name, points in lines.items() if name != cases[0]["reference"]}):
        drawn = with_interval(axes, points, name, lambda e: 100 * (e["ratio"] - 1),
                              lambda e: 100 * (e["ratio_low"] - 1), lambda e: 100 * (e["ratio_high"] - 1))
        hollow(axes, points, drawn.lines[0].get_color())
    axes.plot([], [], "o", color="black", markerfacecolor="white", label="hollow: the interval includes 0")
    from_paper(axes, PAPER_SPEEDUP, f"{PAPER}: over its in-RAM replay", "s")
    axes.axhline(0, color="black", linewidth=0.8)
    batch_axis(axes, cases)
    axes.set(ylabel="speed-up of the in-device train step over each, %",
             title="Train step: replay on the device against replay in RAM")


def draw_step(axes, cases):
    with_times(axes, cases)
    for (name, points), marker in zip(PAPER_STEP.items(), "s^"):
        from_paper(axes, points, f"{PAPER}: {name}", marker)
    batch_axis(axes, cases)
    time_axis(axes)
    axes.set(ylabel="time of a train step", title="Train step by batch size")


def draw_append(axes, cases):
    with_times(axes, cases)
    from_paper(axes, PAPER_APPEND, f"{PAPER}: in the GPU", "^")
    axes.axhline(PAPER_APPEND_RAM, color="0.45", linestyle=":", label=f"{PAPER}: in RAM")
    axes.set(xscale="log", xlabel="update size: transitions copied at once", ylabel="time of one append",
             title="Append by update size")
    number_ticks(axes, sorted({case["x"] for case in cases} | set(PAPER_APPEND)))
    time_axis(axes)


def draw_crowd(axes, cases):
    for name, points in beside(by_entrant(cases)):
        with_interval(axes, points, name, lambda e: 1 / e["seconds"], lambda e: 1 / e["high"], lambda e: 1 / e["low"])
    axes.set(xscale="log", xlabel="threads that append", ylabel="train steps per second",
             title="Training while threads append")
    axes.set_ylim(bottom=0)
    number_ticks(axes, sorted({case["x"] for case in cases}))


FIGURES = {
    "speedup.png": ("train step", draw_speedup),
    "train_step.png": ("train step", draw_step),
    "append.png": ("append", draw_append),
    "appending_threads.png": ("train step while threads append", draw_crowd),
}


def caption_of(head):
    lines = [head.get("settings", ""), f"commit {head.get('commit', 'unknown')}, {head.get('when', '')}"]
    if head.get("interrupted"):
        lines.append("Interrupted: not all cases are here.")
    if head.get("device") == "cpu":
        lines.append("No GPU: host and device are the same memory, so the gain of a GPU does not show here.")
    return "\n".join(textwrap.fill(line, 150) for line in lines)


def draw_curve_pair(pair, curves):
    """Return by steps, and by seconds."""
    for curve in curves:
        style = {"label": curve.get("contestant", curve["label"]), "color": COLOURS.get(curve.get("contestant"))}
        pair[0].plot(curve["steps"], curve["return"], **style)
        pair[1].plot(curve["seconds"], curve["return"], **style)
    pair[0].set(xlabel="environment steps", ylabel="return")
    pair[1].set(xlabel="seconds")


def training_title(training, batch):
    """How much faster it was, slice by slice, where there are enough for an interval; and in the paper."""
    faster = {total["contestant"]: total.get("faster_by_slices") for total in training.get("totals", [])
              if total["batch"] == batch}
    ours, paper = faster.get("in-device"), PAPER_TRAINING.get(batch)
    title = f"One training each, batch {batch}"
    if ours:
        level = ": may be none" if ours["low"] <= 0 <= ours["high"] else ""
        title += (f": speed-up of in-device over in-RAM, as in the paper: {ours['median']:+.1f} % "
                  f"({ours['low']:+.1f} to {ours['high']:+.1f}{level})")
    return title + (f"\n{PAPER}, its own game: {paper:+.1f} %" if paper else "")


def draw_training(pyplot, training, out):
    """A row a batch size. Play by chance and by hand are what the returns lie between."""
    batches = sorted({curve["batch"] for curve in training["curves"]})
    figure, axes = pyplot.subplots(len(batches), 2, sharey="row", squeeze=False, figsize=(11, 3.4 * len(batches) + 1.4))
    for pair, batch in zip(axes, batches):
        draw_curve_pair(pair, [curve for curve in training["curves"] if curve["batch"] == batch])
        pair[0].set_title(training_title(training, batch), loc="left", fontsize="medium")
        for a in pair:
            for name, words, style in (("return_by_chance", "by chance", ":"), ("return_by_hand", "by hand", "-.")):
                if name in training:
                    a.axhline(training[name], color="0.45", linestyle=style, label=f"play {words}")
    caption = caption_of(training)
    if training.get("quick"):
        caption += "\n--quick: too few steps to learn anything."
    finish(figure, list(axes.flat), caption, out / "learning_curves.png")


def draw_csv(pyplot, curves, out):
    figure, axes = pyplot.subplots(1, 2, sharey=True, figsize=(11, 4.5))
    draw_curve_pair(axes, curves)
    finish(figure, axes, "", out / "curves.png")


def draw_all(pyplot, folder, out):
    """How many pictures were made."""
    head, figures, training, curves = read_results(folder)
    made = 0
    for name, (wanted, draw) in FIGURES.items():
        if figures.get(wanted):
            figure, axes = pyplot.subplots(figsize=(8, 6))
            draw(axes, figures[wanted])
            finish(figure, [axes], caption_of(head), out / name)
            made += 1
    if training:
        draw_training(pyplot, training, out)
    if curves:
        draw_csv(pyplot, curves, out)
    return made + bool(training) + bool(curves) + plot_peers.draw_all(pyplot, folder, out)


def main():
    if sys.argv[1:] in (["--help"], ["-h"]):
        print(__doc__)
        return 0
    if len(sys.argv) not in (2, 3) or not Path(sys.argv[1]).is_dir():
        print("usage: plot.py FOLDER [OUT]: FOLDER holds the JSON that the benchmarks wrote", file=sys.stderr)
        return 2
    try:
        import matplotlib
    except ImportError:
        print("plot.py draws with matplotlib, which is not here: pip install matplotlib, or apt install "
              "python3-matplotlib", file=sys.stderr)
        return 77
    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder = Path(sys.argv[1])
    out = Path(sys.argv[2]) if len(sys.argv) == 3 else folder
    out.mkdir(parents=True, exist_ok=True)
    if draw_all(pyplot, folder, out) == 0:
        print(f"{folder} holds no results to draw: bash bench/run.sh --out {folder}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
