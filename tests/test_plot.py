# SPDX-License-Identifier: MIT
"""bench/plot.py over results made up here: what it reads, what it draws, and what it says when it cannot."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
PLOT = Path(__file__).resolve().parent.parent / "bench/plot.py"
PNG = b"\x89PNG\r\n\x1a\n"


def load():
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
    curve = {"label": "in-RAM, batch 32", "steps": [0, 10, 20], "seconds": [0, 1, 2], "return": [1, 2, 4]}
    (folder / "bench_training.json").write_text(json.dumps({"name": "dodge", "curves": [curve]}))
    (folder / "cartpole.csv").write_text("steps,seconds,train_return\n0,0.0,\n100,1.5,20\n200,2.5,30\n")
    (folder / "other.csv").write_text("a,b\n1,2\n")


def results_are_read(plot, folder):
    head, figures, curves = plot.read_results(folder)
    assert head["commit"] == "abc" and sorted(figures) == ["append", "train step", "train step while threads append"]
    assert [curve["label"] for curve in curves] == ["in-RAM, batch 32", "cartpole"], curves
    assert curves[1]["steps"] == [100, 200] and curves[1]["return"] == [20, 30], curves[1]
    lines = plot.by_entrant(figures["train step"])
    assert [x for x, _ in lines["in-device"]] == [32, 128], "x goes up"
    assert "host and device are the same memory" in plot.caption_of(head)


def the_papers_numbers_are_the_papers(plot):
    """[Parr 2018]: table 1, and the two numbers of section 5 on appends."""
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
    near(lines_of(plot, plot.draw_step, figures["train step"])["in-device"], [32, 128])
    near(lines_of(plot, plot.draw_append, figures["append"])["in-RAM, as in the paper"], [150])
    near(lines_of(plot, plot.draw_crowd, figures["train step while threads append"])["in-device"], [1000])


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
    wanted = ["append.png", "appending_threads.png", "learning_curves.png", "speedup.png", "train_step.png"]
    assert names == wanted, names
    for name in names:
        content = (folder / "out" / name).read_bytes()
        assert content.startswith(PNG) and len(content) > 10_000, name


def main():
    plot = load()
    has_matplotlib = importlib.util.find_spec("matplotlib") is not None
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        write_results(folder)
        results_are_read(plot, folder)
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
        pictures_are_made(folder)
    print("test_plot: 5 pictures")
    return 0


sys.exit(main())
