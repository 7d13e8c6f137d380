# SPDX-License-Identifier: MIT
"""Devices named as PyTorch names them."""

import sys
import types

import gpureplay
import pytest

FIELDS = {"x": "float32"}


class device:  # noqa: N801 (as torch.device, of which nothing else is asked)
    def __init__(self, kind, index=None):
        self.type, self.index = kind, index


@pytest.mark.parametrize("index", [None, 0])
def test_a_torch_device_of_the_cpu_is_taken(index):
    with gpureplay.ReplayBuffer(100, FIELDS, device=device("cpu", index)) as buffer:
        assert buffer.device.name == "cpu"
    assert gpureplay.Device(device("cpu", index)).name == "cpu"


def test_a_real_torch_device_is_taken():
    torch = pytest.importorskip("torch")
    with gpureplay.ReplayBuffer(100, FIELDS, device=torch.device("cpu")) as buffer:
        assert buffer.device.name == "cpu"
    with pytest.raises(TypeError, match="device is device.type='meta'"):
        gpureplay.ReplayBuffer(100, FIELDS, device=torch.device("meta"))


def asked_for(monkeypatch, given):
    """The name that the library is asked to open."""
    asked = []

    def open_device(name, *_):
        asked.append(name.decode())
        return gpureplay._mirror.UNAVAILABLE

    monkeypatch.setattr(gpureplay.lib, "gpur_device_open", open_device)
    with pytest.raises(gpureplay.Unavailable):
        gpureplay.Device(given)
    return asked


def test_a_torch_device_of_cuda_is_the_one_of_its_index(monkeypatch):
    assert asked_for(monkeypatch, device("cuda", 0)) == ["cuda:0"]
    assert asked_for(monkeypatch, device("cuda", 3)) == ["cuda:3"]


def test_without_an_index_it_is_pytorchs_current_one(monkeypatch):
    fake = types.ModuleType("fake_torch")
    fake.cuda = types.SimpleNamespace(current_device=lambda: 1)
    monkeypatch.setitem(sys.modules, "fake_torch", fake)
    monkeypatch.setattr(device, "__module__", "fake_torch")
    assert asked_for(monkeypatch, device("cuda")) == ["cuda:1"]


@pytest.mark.parametrize("wrong", [device("mps"), 0, None, ["cpu"], device("cpu").type.encode()])
def test_what_names_no_device_is_refused(wrong):
    with pytest.raises(TypeError, match='device is .*; it must be "auto", "cpu", "cuda:N", a torch.device'):
        gpureplay.ReplayBuffer(100, FIELDS, device=wrong)
