# SPDX-License-Identifier: MIT
"""What help() shows."""

import inspect
import pydoc

import gpureplay
import pytest


def page(thing):
    return pydoc.render_doc(thing, renderer=pydoc.plaintext)


@pytest.mark.parametrize("kind", [gpureplay.ReplayBuffer, gpureplay.Writer])
@pytest.mark.parametrize("name", ["add", "extend"])
def test_help_of_add_and_extend_has_their_text_and_signature(kind, name):
    with gpureplay.ReplayBuffer(10, {"x": "float32"}, device="cpu") as buffer:
        one = buffer if kind is gpureplay.ReplayBuffer else buffer.writer()
        text = inspect.getdoc(getattr(kind, name))
        wanted = [line.strip() for line in text.splitlines() if line.strip()]
        assert len(text) > 60
        for shown in (page(getattr(kind, name)), page(getattr(one, name)), page(kind)):
            lines = [line.strip(" |") for line in shown.splitlines()]
            assert all(line in lines for line in wanted), shown
            assert any(line.startswith(f"{name}(") and "**values" in line for line in lines), shown


def test_help_of_the_package_is_a_page():
    text = page(gpureplay)
    begin = text[:text.index("PACKAGE CONTENTS")]
    assert 20 < len(begin.splitlines()) < 60
    assert "buffer.add(" in begin and "agent.train(" in begin and "buffer.sample(" in begin
    for name in ("ReplayBuffer", "DQN", "Writer", "Device", "preset", "show_config", "file_info", "sb3"):
        assert name in begin, name


def test_the_example_in_it_runs():
    pytest.importorskip("gymnasium")
    text = inspect.getdoc(gpureplay)
    example = inspect.cleandoc("    " + text[text.index("import gymnasium"):text.index("A network of your own")])
    assert "range(10_000)" in example
    names = {}
    exec(example.replace("10_000", "50"), names)
    assert len(names["buffer"]) >= 300 and names["agent"].stats.steps_enqueued > 0


def test_all_names_are_there_once_and_documented():
    assert sorted(gpureplay.__all__) == sorted(set(gpureplay.__all__))
    for name in gpureplay.__all__:
        thing = getattr(gpureplay, name)
        assert inspect.getdoc(thing) and not name.startswith("_"), name
    public = {name for name, thing in vars(gpureplay).items()
              if not name.startswith("_") and not inspect.ismodule(thing) and name != "lib"}
    assert public == set(gpureplay.__all__)
