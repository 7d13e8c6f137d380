# SPDX-License-Identifier: MIT
"""bench/peers/steps: what leads to a CUDA graph made by hand, where there is no CUDA: a stand-in calls the function
again where a graph would be replayed. It shows that what is warmed up before is undone, and nothing of CUDA itself."""

from contextlib import nullcontext
from unittest.mock import Mock

import numpy as np
import pytest
from test_peers_steps import ONCE, SMALL, contestant_of, same, steps, wanted  # noqa: F401

pytestmark = ONCE


def called_again(work):
    """As Graph._captured: `work` runs at each replay, and not before."""
    torch = pytest.importorskip("torch")
    result = torch.zeros(())

    def replay():
        value = work()
        if value is not None:
            result.copy_(value)

    return replay, result


@pytest.mark.parametrize("small", [small for small in SMALL if small.startswith("melee")])
def test_a_warm_up_leaves_nothing_behind(wanted, small, monkeypatch):  # noqa: F811
    torch = pytest.importorskip("torch")
    graph, _ = steps.find("torch graph", "cpu")
    monkeypatch.setattr(graph, "_captured", staticmethod(called_again))
    for name, stand_in in (("Stream", Mock()), ("current_stream", Mock()), ("stream", lambda stream: nullcontext())):
        monkeypatch.setattr(torch.cuda, name, stand_in)
    contestant = graph(SMALL[small], "cpu")
    if SMALL[small].draws == "prioritized":
        assert (contestant.priorities(np.arange(SMALL[small].rows)) == 1).all()
    assert same.fault(same.found_of(contestant), wanted(SMALL[small]), "fp32") == ""
    before = contestant.train_on(same.ids_of(SMALL[small])[0])
    contestant.train(1)
    assert contestant.train_on(same.ids_of(SMALL[small])[0]) != before


@pytest.mark.parametrize("small", ["melee-gpu preset uniform", "melee-gpu adam prioritized"])
def test_what_is_compiled_has_our_losses(wanted, small):  # noqa: F811
    """In one graph, or it is refused; a whole step, with its draws. Slow: a compiler works for a while."""
    contestant = contestant_of("torch compiled", SMALL[small])
    assert same.fault(same.found_of(contestant), wanted(SMALL[small]), "fp32") == ""
    before = contestant.train_on(same.ids_of(SMALL[small])[0])
    contestant.train(1)
    assert contestant.train_on(same.ids_of(SMALL[small])[0]) != before
    assert contestant.remark() == ""
    contestant.close()
