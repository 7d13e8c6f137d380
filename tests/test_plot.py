# SPDX-License-Identifier: MIT
"""bench/plot.py over results made up here: what it reads, what it draws, and what it says when it cannot."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
PLOT = Path(__file__).resolve().parent.parent / "bench/plot.py"
PNG = b"\x89PNG\r\n\x1a\n"


def load():
    sys.path.insert(0, str(PLOT.parent))  # as for the program
    spec = importlib.util.spec_from_file_location("plot", PLOT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entrant(name, seconds, ratio):
    return {"entrant": name, "seconds": seconds, "low": 0.9 * seconds, "high": 1.2 * seconds, "ratio": ratio,
            "ratio_low": ratio - 0.25, "ratio_high": ratio + 0.5}


def case(figure, x_name, x, seconds):
    return {"name": f"{figure}, {x_name} {x}", "figure": figure, "x_name": x_name, "x": x, "reference": "in-device",
            "entrants": [entrant("in-RAM, as in the paper", 1.5 * seconds, 1.5), entrant("in-device", seconds, 1)]}


def write_results(folder):
    cases = [{"name": "a figure that belongs to no picture", "seconds": 1.0}]
    for x in (128, 32):  # not in order
        cases.append(case("train step", "batch", x, x * 1e-6))
    cases.append(case("append", "update_size", 250, 1e-7))
    cases.append(case("train step while threads append", "threads", 4, 1e-3))
    contest = {"title": "t", "device": "cpu", "settings": "a CPU", "commit": "abc", "when": "now", "cases": cases}
    (folder / "bench_contest.json").write_text(json.dumps(contest))
    curves = [{"label": f"in-device, batch {batch}", "contestant": "in-device", "batch": batch, "steps": [0, 10, 20],
               "seconds": [0, 1, 2], "return": [1, 2, batch]} for batch in (128, 32)]
    totals = [{"contestant": "in-device", "batch": 32, "percent_faster": 99.9,
               "faster_by_slices": {"median": 12.34, "low": 10.0, "high": 14.56, "slices": 19}},
              {"contestant": "in-device", "batch": 128, "percent_faster": 99.9, "faster_by_slices": None}]  # too short
    training = {"curves": curves, "totals": totals, "return_by_chance": 1.5, "return_by_hand": 10}
    (folder / "bench_training.json").write_text(json.dumps(training))
    write_peers(folder)
    (folder / "cartpole.csv").write_text("steps,seconds,train_return\n0,0.0,\n100,1.5,20\n200,2.5,30\n")
    (folder / "other.csv").write_text("a,b\n1,2\n")


def timed(seconds):
    return {"seconds": {"median": seconds, "low": 0.9 * seconds, "high": 1.25 * seconds}}


def write_peers(folder):
    """Reports beside other libraries: cases not in order, one that was refused, another arithmetic, small buffers."""
    about = {"machine": {"cpu": "a CPU", "gpu": "a GPU", "commit": "abc"}, "interrupted": False, "left_out": [],
             "settings": {"device": "cuda:0", "threads": 1, "rounds": 7},
             "contestants": [{"name": "torch", "present": True}, {"name": "flashbax", "present": False}]}
    torch_took = ((256, "fp32", "preset", timed(1e-3)), (32, "fp32", "preset", timed(5e-4)),
                  (32, "bf16", "preset", {"no": "other losses"}), (32, "fp32", "adam", timed(2e-4)))
    steps = [{"name": "n", "network": "melee-gpu", "batch": batch, "rows": 1000, "math": math, "optimizer": optimizer,
              "draws": "uniform", "results": {"gpureplay": timed(batch * 1e-6), "torch": torch}}
             for batch, math, optimizer, torch in torch_took]
    titled = {**about, "title": "train steps beside each other", "cases": steps}
    (folder / "bench_peers_steps.json").write_text(json.dumps(titled))
    buffers = [{"name": "n", "fields": "obs", "capacity": capacity, "kind": kind, "operation": operation,
                "count": count, "results": {"gpureplay": timed(count * 1e-8), "jax": timed(count * 2e-8)}}
               for capacity, kind, operation, count in (
                   (1000, "uniform", "sample", 32), (1000, "uniform", "sample", 64), (1000, "uniform", "add", 1),
                   (10, "uniform", "sample", 32), (10, "uniform", "sample", 64), (1000, "prioritized", "turn", 32),
                   (1000, "prioritized", "turn", 1024), (1000, "prioritized", "update", 32))]
    titled = {**about, "title": "replay buffers beside each other", "cases": buffers}
    (folder / "bench_peers.json").write_text(json.dumps(titled))


def the_peers_are_read(peers, folder):
    steps = peers.read(folder, peers.STEPS)
    assert list(steps) == ["bench_peers_steps"], steps
    panels = peers.panels_of(steps["bench_peers_steps"]["cases"], peers.steps_title)
    wanted = ["melee-gpu, fp32\n1,000 rows", "melee-gpu, bf16\n1,000 rows", "melee-gpu, fp32, adam\n1,000 rows"]
    assert list(panels) == wanted, panels
    assert [x for x, _ in peers.lines_of(panels[wanted[0]], "batch")["torch"]] == [32, 256], "x goes up"
    assert list(peers.lines_of(panels[wanted[1]], "batch")) == ["gpureplay"], "who was refused has no line"
    document = peers.read(folder, peers.BUFFERS)["bench_peers"]
    panels = peers.buffer_panels(document["cases"])
    wanted = ["sample\nobs, 1,000 slots", "sample, then update, prioritized\nobs, 1,000 slots"]
    assert list(panels) == wanted, "of the largest buffer, and where there is a line to draw"
    caption = peers.caption_of(document, 100)
    assert caption.startswith("a GPU; 7 rounds") and "Not compared: flashbax." in caption and "time" not in caption
    late = peers.caption_of({**document, "left_out": ["a case"]}, 100)
    assert "not all cases are here" in late and max(map(len, late.splitlines())) <= 100


def what_peers_took_is_drawn(peers, folder):
    cases = peers.read(folder, peers.STEPS)["bench_peers_steps"]["cases"]
    drawn = lines_of(peers, peers.draw_steps, [case for case in cases if case["math"] == "fp32"][:2])
    near(drawn["gpureplay"], [1e6 / 32, 1e6 / 256])
    near(drawn["torch"], [1 / 5e-4, 1 / 1e-3])
    cases = peers.read(folder, peers.BUFFERS)["bench_peers"]["cases"]
    near(lines_of(peers, peers.draw_buffers, cases[:2])["jax"], [64e-8, 128e-8])
    intervals_are_those_of_the_seconds(peers, cases[:2])


def intervals_are_those_of_the_seconds(peers, cases):
    from matplotlib import pyplot

    axes = pyplot.subplots()[1]
    peers.draw_lines(axes, cases, "count", lambda seconds: 1 / seconds)
    for container, seconds in zip(axes.containers, (32e-8, 64e-8)):
        low, high = container.lines[2][0].get_segments()[0][:, 1]
        near([low, high], [1 / (1.25 * seconds), 1 / (0.9 * seconds)])


def results_are_read(plot, folder):
    head, figures, training, curves = plot.read_results(folder)
    assert head["commit"] == "abc" and sorted(figures) == ["append", "train step", "train step while threads append"]
    assert training["return_by_chance"] == 1.5 and len(training["curves"]) == 2, training
    assert [curve["label"] for curve in curves] == ["cartpole"], curves
    assert curves[0]["steps"] == [100, 200] and curves[0]["return"] == [20, 30], curves[0]
    lines = plot.by_entrant(figures["train step"])
    assert [x for x, _ in lines["in-device"]] == [32, 128], "x goes up"
    assert "host and device are the same memory" in plot.caption_of(head)
    assert "Interrupted" in plot.caption_of({**head, "interrupted": 1}) and "Interrupted" not in plot.caption_of(head)


def the_papers_numbers_are_the_papers(plot):
    """[Parr 2018]: table 1, and the numbers of section 5 on appends and a whole training."""
    assert plot.PAPER_TRAINING == {32: 57.8, 128: 104.3}
    assert plot.PAPER_SPEEDUP == {16: 30.54, 32: 54.87, 64: 67.08, 128: 114.41, 256: 114.35}
    assert plot.PAPER_APPEND[2000] == 37.5e-6 and plot.PAPER_APPEND_RAM == 1.4e-6
    for batch, percent in plot.PAPER_SPEEDUP.items():  # figure 4 was read off by eye
        read = 100 * (plot.PAPER_STEP["in RAM"][batch] / plot.PAPER_STEP["in the GPU"][batch] - 1)
        assert abs(read - percent) < 2, f"batch {batch}: figure 4 gives {read}, table 1 {percent}"


def lines_of(plot, draw, cases):
    from matplotlib import pyplot

    axes = pyplot.subplots()[1]
    draw(axes, cases)
    lines = {container.get_label(): list(container.lines[0].get_ydata()) for container in axes.containers}
    named = [line for line in axes.lines if not line.get_label().startswith("_")]
    return {**lines, **{line.get_label(): list(line.get_ydata()) for line in named}}


def near(got, wanted):
    assert len(got) == len(wanted) and all(abs(a - b) < 1e-6 * abs(b) for a, b in zip(got, wanted)), (got, wanted)


def what_is_drawn_is_what_was_measured(plot, folder):
    figures = plot.read_results(folder)[1]
    speedup = lines_of(plot, plot.draw_speedup, figures["train step"])
    assert "in-device" not in speedup, "nothing is faster than itself"
    near(speedup["in-RAM, as in the paper"], [50, 50])
    near(speedup[f"{plot.PAPER}: over its in-RAM replay"], list(plot.PAPER_SPEEDUP.values()))
    near(lines_of(plot, plot.draw_step, figures["train step"])["in-device"], [32e-6, 128e-6])
    near(lines_of(plot, plot.draw_append, figures["append"])["in-RAM, as in the paper"], [1.5e-7])
    near(lines_of(plot, plot.draw_crowd, figures["train step while threads append"])["in-device"], [1000])


def what_is_no_difference_is_hollow(plot):
    """At 32 the interval includes a ratio of 1; at 128 it does not."""
    from matplotlib import pyplot

    cases = [case("train step", "batch", x, 1e-6) for x in (32, 128)]
    cases[0]["entrants"][0].update(ratio=1.1, ratio_low=0.95)
    axes = pyplot.subplots()[1]
    plot.draw_speedup(axes, cases)
    white = [line for line in axes.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert len(white) == 1 and len(white[0].get_xdata()) == 1, white
    near(list(white[0].get_ydata()), [10])
    assert "hollow" in str(axes.get_legend_handles_labels()[1])
    assert axes.get_title() == "Train step: replay on the device against replay in RAM", "no claim"


def intervals_of_one_x_stand_beside_each_other(plot):
    lines = {name: [(64, {})] for name in ("a", "b", "c")}
    x = [points[0][0] for _, points in plot.beside(lines)]
    assert x == sorted(set(x)) and x[1] == 64 and 60 < x[0] and x[2] < 68, x


def a_training_tells_what_the_paper_found(plot, folder):
    training = plot.read_results(folder)[2]
    title = plot.training_title(training, 32)
    assert ": +12.3 % (+10.0 to +14.6)\n" in title and "+57.8 %" in title and title.startswith("One training"), title
    training["totals"][0]["faster_by_slices"]["low"] = -0.5
    assert "(-0.5 to +14.6: may be none)" in plot.training_title(training, 32)
    title = plot.training_title(training, 128)
    assert "speed-up" not in title and "+104.3 %" in title and "99.9" not in title, title
    assert "%" not in plot.training_title(training, 8)


def the_legend_lies_over_no_line(plot, folder):
    from matplotlib import pyplot

    figures = []
    pyplot.subplots, real = lambda *a, **k: figures.append(real(*a, **k)) or figures[-1], pyplot.subplots
    plot.draw_all(pyplot, folder, folder)
    pyplot.subplots = real
    assert len(figures) == 8
    for figure, _ in figures:
        legend = figure.legends[0].get_window_extent()
        assert len(figure.legends[0].get_texts()) > 0
        for axes in figure.axes:
            assert not legend.overlaps(axes.get_tightbbox(figure.canvas.get_renderer())), axes.get_title()
        caption = figure.texts[0].get_window_extent()
        assert not figure.texts[0].get_text() or caption.y1 <= legend.y0 + 1, (caption, legend)


def run(*arguments, **options):
    return subprocess.run([sys.executable, PLOT, *arguments], capture_output=True, text=True, **options)


def bad_calls_are_refused(folder, has_matplotlib):
    for arguments in ((), (folder / "nowhere",)):
        done = run(*arguments)
        assert done.returncode == 2 and "usage" in done.stderr, done
    (folder / "empty").mkdir()
    done = run(folder / "empty")
    assert done.returncode == (2 if has_matplotlib else 77), done
    assert not has_matplotlib or "no results to draw" in done.stderr, done.stderr


def without_matplotlib_it_says_how_to_get_it(folder):
    """A matplotlib that cannot be imported stands in front of one that could."""
    (folder / "hidden").mkdir()
    (folder / "hidden/matplotlib.py").write_text("raise ImportError")
    done = run(folder, env={**os.environ, "PYTHONPATH": str(folder / "hidden")})
    assert done.returncode == 77 and "pip install matplotlib" in done.stderr, done
    assert not list(folder.glob("*.png"))


def pictures_are_made(folder):
    done = run(folder, folder / "out")
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (folder / "out").iterdir())
    wanted = ["append.png", "appending_threads.png", "bench_peers.png", "bench_peers_steps.png", "curves.png",
              "learning_curves.png", "speedup.png", "train_step.png"]
    assert names == wanted, names
    for name in names:
        content = (folder / "out" / name).read_bytes()
        assert content.startswith(PNG) and len(content) > 10_000, name


def python_with_matplotlib():
    """None where there is none. Debian's package is seen only by Debian's own Python, which need not be this one."""
    pythons = [sys.executable, *filter(None, map(shutil.which, ("python3", "/usr/bin/python3")))]
    has_it = (subprocess.run([python, "-c", "import matplotlib"], capture_output=True).returncode == 0
              for python in pythons)
    return next((python for python, has in zip(pythons, has_it) if has), None)


def main():
    has_matplotlib = (python := python_with_matplotlib()) is not None
    if has_matplotlib and python != sys.executable:
        os.execv(python, [python, *sys.argv])
    plot = load()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        write_results(folder)
        results_are_read(plot, folder)
        the_peers_are_read(plot.plot_peers, folder)
        the_papers_numbers_are_the_papers(plot)
        without_matplotlib_it_says_how_to_get_it(folder)
        bad_calls_are_refused(folder, has_matplotlib)
        if not has_matplotlib:
            print("test_plot: skipped: what is read was checked, what is drawn was not, as there is no matplotlib "
                  "(Debian: apt install python3-matplotlib)")
            return 77
        import matplotlib

        matplotlib.use("Agg")
        what_is_drawn_is_what_was_measured(plot, folder)
        what_peers_took_is_drawn(plot.plot_peers, folder)
        intervals_of_one_x_stand_beside_each_other(plot)
        what_is_no_difference_is_hollow(plot)
        a_training_tells_what_the_paper_found(plot, folder)
        the_legend_lies_over_no_line(plot, folder)
        pictures_are_made(folder)
    print("test_plot: 8 pictures")
    return 0


sys.exit(main())
