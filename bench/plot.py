#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the paper's experiments from the results of a folder: python3 bench/plot.py FOLDER [OUT].

Reads what bench_ablation, bench_compare and bench_training wrote. PNG files go to OUT, which is FOLDER by default.
Exits with 77 when matplotlib is not here, and with 2 when there is nothing to draw.
"""

import json
import sys
import textwrap
from pathlib import Path

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
COLORS = {"in-RAM, as in the paper": "tab:red", "in-RAM, done well": "tab:orange",
          "in-device, a call a step": "tab:cyan", "in-device, 16 a call": "tab:cyan", "in-device": "tab:blue"}


def number_ticks(axes, ticks):
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def time_axis(axes):
    """1, 2 and 5 of every decade, as "20 us"."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(EngFormatter(unit="s"))


def lines_of(cases):
    """(name, [(x, what was measured)]) of each variant. Points of one x lie side by side, so that no interval hides
    another."""
    lines = {}
    for case in sorted(cases, key=lambda case: case["x"]):
        for one in case["variants"]:
            lines.setdefault(one["name"], []).append((case["x"], one))
    for i, (name, points) in enumerate(lines.items()):
        factor = 1.025 ** (i - (len(lines) - 1) / 2)
        yield name, [(x * factor, one) for x, one in points]


def with_interval(axes, points, name, value, low, high):
    x, ones = zip(*points)
    y = [value(one) for one in ones]
    below = [max(0, v - low(one)) for v, one in zip(y, ones)]
    above = [max(0, high(one) - v) for v, one in zip(y, ones)]
    return axes.errorbar(x, y, yerr=(below, above), marker="o", capsize=3, label=name, color=COLORS.get(name))


def with_times(axes, cases):
    for name, points in lines_of(cases):
        with_interval(axes, points, name, lambda one: one["seconds"], lambda one: one["low"], lambda one: one["high"])


def from_paper(axes, points, label, marker):
    axes.plot(list(points), list(points.values()), linestyle="--", marker=marker, color="0.45", label=label)


def batch_axis(axes, cases):
    axes.set_xscale("log", base=2)
    number_ticks(axes, sorted({case["x"] for case in cases} | set(PAPER_SPEEDUP)))
    axes.set_xlabel("batch size")


def draw_speedup(axes, cases):
    def percent(key):
        return lambda one: 100 * (one[key] - 1)

    for name, points in lines_of(cases):
        if name == cases[0]["reference"]:
            continue
        drawn = with_interval(axes, points, name, percent("ratio"), percent("ratio_low"), percent("ratio_high"))
        level = [(x, 100 * (one["ratio"] - 1)) for x, one in points if one["ratio_low"] <= 1 <= one["ratio_high"]]
        if level:
            axes.plot(*zip(*level), "o", color=drawn.lines[0].get_color(), markerfacecolor="white", zorder=5)
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


FIGURES = {
    "speedup.png": ("train step", draw_speedup),
    "train_step.png": ("train step", draw_step),
    "append.png": ("append", draw_append),
}


def caption_of(report):
    lines = [report.get("settings", ""), f"commit {report.get('commit', 'unknown')}, {report.get('when', '')}"]
    if report.get("interrupted"):
        lines.append("Interrupted: not all cases are here.")
    if report.get("device") == "cpu":
        lines.append("No GPU: host and device are the same memory, so the gain of a GPU does not show here.")
    return "\n".join(textwrap.fill(line, 150) for line in lines)


def finish(figure, axes, caption, png):
    """The legend goes below the axes, the caption below that."""
    named = {}
    for a in axes:
        a.grid(alpha=0.3)
        for handle, label in zip(*a.get_legend_handles_labels()):
            named.setdefault(label, handle)
    rows, inch = -(-len(named) // 2), 1 / figure.get_figheight()
    figure.text(0.01, 0.05 * inch, caption, fontsize=7, color="0.35", linespacing=1.2)
    low = 0.13 * (caption.count("\n") + 1) * inch + 0.1 * inch
    figure.legend(named.values(), named.keys(), loc="lower center", bbox_to_anchor=(0.5, low), ncol=2,
                  fontsize="small", frameon=False)
    figure.tight_layout(rect=(0, low + (0.22 * rows + 0.1) * inch, 1, 1))
    figure.savefig(png, dpi=100)
    print(png)


def training_title(total):
    """How much faster it was, slice by slice; and in the paper."""
    ours = next(one for one in total["variants"] if one["name"] == "in-device")
    title = f"Batch {total['batch']:g}"
    if ours["percent_faster_low"] is not None:
        title += (f": in-device faster than {total['reference']} by {ours['percent_faster']:+.1f} % "
                  f"({ours['percent_faster_low']:+.1f} to {ours['percent_faster_high']:+.1f})")
    paper = PAPER_TRAINING.get(total["batch"])
    return title + (f"\n{PAPER}, its own game: {paper:+.1f} %" if paper else "")


def draw_training(pyplot, report, out):
    """A row a batch size: return by steps, and by seconds."""
    totals = [case for case in report["cases"] if case.get("figure") == "training"]
    figure, axes = pyplot.subplots(len(totals), 2, sharey="row", squeeze=False, figsize=(11, 3.4 * len(totals) + 1.4))
    for pair, total in zip(axes, totals):
        for curve in report["cases"]:
            if curve.get("figure") == "training curve" and curve["batch"] == total["batch"]:
                style = {"label": curve["variant"], "color": COLORS.get(curve["variant"]), "linewidth": 1}
                pair[0].plot(curve["steps"], curve["return"], **style)
                pair[1].plot(curve["seconds"], curve["return"], **style)
        pair[0].set(xlabel="environment steps", ylabel="return")
        pair[1].set(xlabel="seconds")
        pair[0].set_title(training_title(total), loc="left", fontsize="medium")
    finish(figure, list(axes.flat), caption_of(report), out / "learning_curves.png")


def draw_ablation(pyplot, reports, out):
    """A panel for each environment: the time of each variant by W, and the paper's."""
    groups = {}
    for case in (case for report in reports for case in report["cases"]):
        groups.setdefault(case["figure"], {}).setdefault(case["variant"], []).append(case)
    columns = min(4, len(groups))
    figure, axes = pyplot.subplots(-(-len(groups) // columns), columns, squeeze=False, sharey=True,
                                   figsize=(3.6 * columns, 3.2 * -(-len(groups) // columns) + 1.6))
    for axis in list(axes.flat)[len(groups):]:
        axis.set_visible(False)
    for axis, (name, variants) in zip(axes.flat, groups.items()):
        whole = mean_of(next(iter(variants.values()))[0]["seconds"])
        for variant, cases in variants.items():
            widths = [case["num_envs"] for case in cases]
            times = [[100 * x / whole for x in case["seconds"]] for case in cases]
            mean = [mean_of(x) for x in times]
            errors = [m - min(x) for m, x in zip(mean, times)], [max(x) - m for m, x in zip(mean, times)]
            color = axis.errorbar(widths, mean, errors, marker="o", capsize=3, label=variant).lines[0].get_color()
            axis.plot(widths, [case["paper_percent"] for case in cases], ":", color=color,
                      label=f"{variant}: the paper")
        axis.set(xscale="log", xlabel="environments (W)")
        axis.set_title(name, fontsize="small")
        number_ticks(axis, [1, 2, 4, 8])
    axes[0][0].set_ylim(bottom=0)
    for row in axes:
        row[0].set_ylabel("time, % of Standard, W = 1")
    acts = "Standard and Synchronized act by the newest weights, Concurrent and Both by the target network."
    finish(figure, list(axes.flat), f"{caption_of(reports[0])}\n{acts}", out / "ablation.png")


def mean_of(values):
    return sum(values) / len(values)


def draw_all(pyplot, folder, out):
    """How many pictures were made."""
    made, ablations = 0, []
    for path in sorted(folder.glob("*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        cases = report.get("cases", []) if isinstance(report, dict) else []
        if any(case.get("figure") == "training" for case in cases):
            draw_training(pyplot, report, out)
            made += 1
        if cases and report["title"] == "ablation":
            ablations.append(report)
        for name, (wanted, draw) in FIGURES.items():
            found = [case for case in cases if case.get("figure") == wanted]
            if found:
                figure, axes = pyplot.subplots(figsize=(8, 6))
                draw(axes, found)
                finish(figure, [axes], caption_of(report), out / name)
                made += 1
    if ablations:
        draw_ablation(pyplot, ablations, out)
        made += 1
    return made


def main():
    if len(sys.argv) not in (2, 3) or not Path(sys.argv[1]).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    try:
        import matplotlib
    except ImportError:
        print("plot.py draws with matplotlib, which is not here (Debian: python3-matplotlib)", file=sys.stderr)
        return 77
    matplotlib.use("Agg")
    from matplotlib import pyplot

    out = Path(sys.argv[-1])
    out.mkdir(parents=True, exist_ok=True)
    return 0 if draw_all(pyplot, Path(sys.argv[1]), out) else 2


if __name__ == "__main__":
    sys.exit(main())
