# SPDX-License-Identifier: MIT
"""What the pictures have in common: axes, legends, captions."""


def beside(lines):
    """(name, points) of each, those of one x moved apart a little, so that no interval hides another."""
    for i, (name, points) in enumerate(lines.items()):
        factor = 1.025 ** (i - (len(lines) - 1) / 2)
        yield name, [(x * factor, entrant) for x, entrant in points]


def log_axis(axes, unit):
    """1, 2 and 5 of every decade, as "20 us"."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(EngFormatter(unit=unit))


def time_axis(axes):
    log_axis(axes, "s")


def number_ticks(axes, ticks):
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def finish(figure, axes, caption, png):
    """The legend goes below, where no line is; the caption below that."""
    for a in axes:
        a.grid(alpha=0.3)
    named = {}
    for a in axes:
        for handle, label in zip(*a.get_legend_handles_labels()):
            named.setdefault(label, handle)
    rows, inch = -(-len(named) // 2), 1 / figure.get_figheight()
    lines = caption.count("\n") + 1 if caption else 0
    figure.text(0.01, 0.05 * inch, caption, fontsize=7, color="0.35", linespacing=1.2)
    low = 0.13 * lines * inch + 0.1 * inch
    figure.legend(named.values(), named.keys(), loc="lower center", bbox_to_anchor=(0.5, low), ncol=2,
                  fontsize="small", frameon=False)
    figure.tight_layout(rect=(0, low + (0.22 * rows + 0.1) * inch, 1, 1))
    figure.savefig(png, dpi=120)
    print(png)
