# SPDX-License-Identifier: MIT
"""Pictures of bench/peers: train steps a second, and the time of each call of a replay buffer, beside other libraries.
A panel a workload, a line a contestant."""

import json
import textwrap

from plot_axes import beside, finish, log_axis, number_ticks, time_axis

STEPS, BUFFERS = "train steps beside each other", "replay buffers beside each other"
COLUMNS = 3
COLOURS = {"gpureplay": "tab:blue", "gpureplay one kernel": "navy", "gpureplay unroll 1": "deepskyblue",
           "gpureplay unroll 16": "cornflowerblue", "gpureplay cuDNN": "teal", "torch": "tab:orange",
           "torch compiled": "tab:red", "torch graph": "tab:brown", "jax": "tab:green", "flashbax": "tab:olive",
           "torchrl": "tab:purple", "cpprb": "tab:pink", "sb3": "tab:gray", "rlox": "tab:cyan", "cupy": "black"}
WORDS = {"turn": "sample, then update"}


def read(folder, title):
    """{name of the file without .json: document} of those with this title and cases."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document, dict) and document.get("title") == title and document.get("cases"):
            found[path.stem] = document
    return found


def lines_of(cases, x):
    """{contestant: [(x, its result)]}, x ascending, of those that were timed."""
    lines = {}
    for case in sorted(cases, key=lambda case: case[x]):
        for name, result in case["results"].items():
            if "seconds" in result:
                lines.setdefault(name, []).append((case[x], result))
    return lines


def panels_of(cases, title):
    """{title: cases}, in the order of the cases."""
    panels = {}
    for case in cases:
        panels.setdefault(title(case), []).append(case)
    return panels


def steps_title(case):
    words = [case["network"], case["math"]]
    words += [case[name] for name, usual in (("optimizer", "preset"), ("draws", "uniform")) if case[name] != usual]
    return f"{', '.join(words)}\n{case['rows']:,} rows"


def buffers_title(case):
    kind = "" if case["kind"] == "uniform" else f", {case['kind']}"
    return f"{WORDS.get(case['operation'], case['operation'])}{kind}\n{case['fields']}, {case['capacity']:,} slots"


def buffer_panels(cases):
    """Of draws, updates and blocks that are added, where there is more than one size, out of the largest buffer with
    such fields."""
    largest = {}
    for case in cases:
        key = case["kind"], case["fields"]
        largest[key] = max(largest.get(key, 0), case["capacity"])
    kept = [case for case in cases if case["capacity"] == largest[case["kind"], case["fields"]]
            and case["operation"] in ("sample", "update", "turn", "extend")]
    panels = panels_of(kept, buffers_title)
    return {title: panel for title, panel in panels.items() if len({case["count"] for case in panel}) > 1}


def draw_lines(axes, cases, x, value):
    """value: of seconds. Its interval is that of the seconds."""
    for name, points in beside(lines_of(cases, x)):
        places, figures = zip(*((place, result["seconds"]) for place, result in points))
        middle = [value(figure["median"]) for figure in figures]
        ends = [sorted((value(figure["low"]), value(figure["high"]))) for figure in figures]
        spread = ([m - low for m, (low, _) in zip(middle, ends)], [high - m for m, (_, high) in zip(middle, ends)])
        is_ours, is_variant = name == "gpureplay", name.startswith("gpureplay ")
        axes.errorbar(places, middle, yerr=spread, marker="o", markersize=4, capsize=2, label=name,
                      color=COLOURS.get(name), linewidth=2 if is_ours else 1, linestyle=":" if is_variant else "-")
    axes.set_xscale("log", base=2)
    number_ticks(axes, sorted({case[x] for case in cases}))


def draw_steps(axes, cases):
    draw_lines(axes, cases, "batch", lambda seconds: 1 / seconds)
    axes.set(xlabel="batch size", ylabel="train steps per second")
    log_axis(axes, "")


def draw_buffers(axes, cases):
    draw_lines(axes, cases, "count", lambda seconds: seconds)
    axes.set(xlabel="transitions", ylabel="time of one call")
    time_axis(axes)


def caption_of(document, width):
    """Lines of so many letters at most."""
    machine, settings = document["machine"], document["settings"]
    of_cpu = f"{machine['cpu']}, threads {settings['threads']}"
    place = machine["gpu"] if settings["device"].startswith("cuda") else of_cpu
    lines = [f"{place}; {settings['rounds']} rounds in turn, medians and their 95 % intervals; "
             f"commit {machine['commit']}"]
    absent = sorted({peer["name"] for peer in document["contestants"] if not peer["present"]})
    if absent:
        lines.append(f"Not compared: {', '.join(absent)}.")
    if document.get("interrupted") or document.get("left_out"):
        lines.append("Interrupted, or out of time: not all cases are here.")
    return "\n".join(textwrap.fill(line, width) for line in lines)


def draw(pyplot, panels, draw_one, document, png):
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, squeeze=False, figsize=(4.6 * columns + 1, 3.6 * rows + 1.6))
    places = list(axes.flat)
    for place, (title, cases) in zip(places, panels.items()):
        draw_one(place, cases)
        place.set_title(title, fontsize="small")
    for place in places[len(panels):]:
        place.remove()
    finish(figure, places[:len(panels)], caption_of(document, int(18 * figure.get_figwidth())), png)


def draw_all(pyplot, folder, out):
    """How many pictures were made: one a report, with its name."""
    made = 0
    for title, panels, draw_one in ((STEPS, lambda cases: panels_of(cases, steps_title), draw_steps),
                                    (BUFFERS, buffer_panels, draw_buffers)):
        for name, document in read(folder, title).items():
            found = {title: cases for title, cases in panels(document["cases"]).items() if lines_of(cases, "name")}
            if found:
                draw(pyplot, found, draw_one, document, out / f"{name}.png")
                made += 1
    return made
