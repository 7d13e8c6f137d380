# SPDX-License-Identifier: MIT
"""What each function of `gpureplay.data` says of files that are not there, are none of its form, or cannot be written:
the value that was given and the one that is wanted, in its own words, with nothing left behind."""

import os
import resource

import gpureplay
import numpy as np
import pytest
from gpureplay import data
from support import program

PACKAGES = {"d4rl": "h5py", "parquet": "pyarrow", "lerobot": "pyarrow", "minari": "minari"}
ARGUMENTS = {"d4rl": "source", "parquet": "path", "lerobot": "folder", "minari": "dataset"}
WRITTEN = {"d4rl": "path", "parquet": "path", "lerobot": "folder", "minari": "dataset_id"}
NAMES = {"d4rl": "set.hdf5", "parquet": "set.parquet", "lerobot": "set", "minari": "of/set-v0"}
UNSAID = (".part", "Errno", "errno", "Unable to synchronously", "expected str")


def columns(count=9):
    random = np.random.default_rng(1)
    obs = random.normal(size=(count + 1, 3)).astype("f4")
    return {"obs": obs[:-1], "action": random.uniform(-1, 1, (count, 1)).astype("f4"), "next_obs": obs[1:],
            "reward": np.ones(count, "f4"), "terminated": np.arange(count) == count - 1,
            "truncated": np.zeros(count, bool)}


@pytest.fixture(params=PACKAGES)
def door(request, tmp_path, monkeypatch):
    pytest.importorskip(PACKAGES[request.param])
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "sets"))
    return request.param


def place_of(door, tmp_path):
    """What the functions of the door are given for a data set of this test, and the file in which its rows are."""
    given = NAMES[door] if door == "minari" else str(tmp_path / "sets" / NAMES[door])
    there = tmp_path / "sets" / NAMES[door]
    return given, {"lerobot": there / "meta/info.json", "minari": there / "data/main_data.hdf5"}.get(door, there)


def write(door, place, buffer, **more):
    if door == "minari":
        spaces = pytest.importorskip("gymnasium").spaces
        more["action_space"] = spaces.Box(-1, 1, (1,))
    return getattr(data, f"to_{door}")(buffer, place, **more)


def in_words(told, argument, value):
    text = str(told.value)
    assert text.startswith(f"{argument} is {value!r}") and " must " in f" {text} ", text
    assert not [word for word in UNSAID if word in text] and "\n" not in text, text


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("fault", ["missing", "other kind", "garbage", "no path"])
def test_what_cannot_be_read_is_said_in_words(door, tmp_path, fault):
    (tmp_path / "sets").mkdir()
    given, file = place_of(door, tmp_path)
    if fault == "no path":
        for wrong in (3, None, b"set"):
            with pytest.raises(TypeError) as told:
                getattr(data, f"from_{door}")(wrong, device="cpu")
            in_words(told, ARGUMENTS[door], wrong)
        if door == "minari":
            for wrong in ("!!", "", "no version", "../set-v0"):
                with pytest.raises(ValueError, match="namespace/name-v0") as told:
                    data.from_minari(wrong, device="cpu")
                in_words(told, "dataset", wrong)
        return
    if fault == "other kind":  # a folder for a file, and a file for a folder
        where = tmp_path / "sets" / NAMES[door]
        where.parent.mkdir(exist_ok=True)
        where.write_text("text") if door in ("lerobot", "minari") else where.mkdir()
    if fault == "garbage":
        write(door, given, data.from_numpy(columns(), device="cpu"))
        file.write_text("some text of a dozen letters")
    with pytest.raises((OSError, ValueError)) as told:
        getattr(data, f"from_{door}")(given, device="cpu")
    if fault != "garbage":
        assert isinstance(told.value, OSError)
        in_words(told, ARGUMENTS[door], given)
    assert str(file if door == "lerobot" and fault == "garbage" else given) in str(told.value)
    if door != "lerobot":  # as `train_offline` tells data sets apart
        with pytest.raises(OSError) as told:
            gpureplay.train_offline(given, device="cpu", progress=False)
        assert given in str(told.value) and (fault == "garbage" or str(told.value).startswith("data is"))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("fault", ["in a file", "in no folder", "is there", "no room", "no path"])
def test_what_cannot_be_written_is_said_in_words(door, tmp_path, monkeypatch, fault):
    buffer = data.from_numpy(columns(9000 if fault == "no room" else 9), device="cpu")
    given, _ = place_of(door, tmp_path)
    sets = tmp_path / "sets"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if (fault == "in no folder" and door in ("lerobot", "minari")) or \
            (fault == "no room" and door in ("d4rl", "minari")):
        return  # they make the folder; HDF5 may crash when it closes a file without room
    if fault == "in a file":
        sets.write_text("text")
    elif fault == "is there":
        (sets / NAMES[door]).mkdir(parents=True)
    elif fault != "in no folder":
        sets.mkdir()
    if fault == "no path":
        given = 3
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError if given == 3 and door == "minari" else TypeError if given == 3 else OSError) as told:
        try:
            if fault == "no room":
                resource.setrlimit(resource.RLIMIT_FSIZE, (30000, limits[1]))
            write(door, given, buffer)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    in_words(told, WRITTEN[door], given)
    left = [path for path in tmp_path.rglob("*") if path not in before]
    assert not left or left == [sets / "of"], left  # Minari's namespace


@pytest.mark.parametrize("version", ["v1.6", "v4.0", "v30", None, 3])
def test_another_version_of_lerobot_is_refused(tmp_path, version):
    pytest.importorskip("pyarrow")
    import json
    data.to_lerobot(data.from_numpy(columns(), device="cpu"), tmp_path / "set")
    path = tmp_path / "set/meta/info.json"
    info = json.loads(path.read_text())
    path.write_text(json.dumps({**info, "codebase_version": version}))
    with pytest.raises(ValueError, match=rf"info.json has codebase_version {version!r}; it must be v2.0 to v3.0"):
        data.from_lerobot(tmp_path / "set", device="cpu")
    path.write_text(json.dumps({**info, "features": {"action": 3}}))
    with pytest.raises(ValueError, match="has the feature 'action': 3, which has no \"dtype\""):
        data.from_lerobot(tmp_path / "set", device="cpu")
    features = {name: one for name, one in info["features"].items() if name != "index"}
    path.write_text(json.dumps({**info, "features": {**features, "observation.x": features["observation.state"]}}))
    with pytest.raises(KeyError, match="the data set's files have no column 'observation.x'; they have observation.st"):
        data.from_lerobot(tmp_path / "set", device="cpu")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_infos_without_fields_are_told(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    buffer = data.from_numpy({**columns(), "cost": np.arange(9, dtype="f4")}, device="cpu")
    write("minari", "of/set-v0", buffer)
    with pytest.warns(RuntimeWarning, match="the dataset has infos, cost, which are left out; .* into=") as told:
        data.from_minari("of/set-v0", device="cpu")
    assert [one.filename for one in told if one.category is RuntimeWarning] == [__file__]
    fields = {field.name: (field.shape, field.dtype) for field in buffer.fields}
    again = data.from_minari("of/set-v0", into=gpureplay.ReplayBuffer(20, fields, device="cpu"))
    assert np.array_equal(data.to_numpy(again)["cost"], np.arange(9))


def test_the_program_names_its_option(tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    import h5py
    with h5py.File("empty.hdf5", "w") as file:
        file["rewards"] = np.zeros(3)
    for name, text in (("none.hdf5", "--data is 'none.hdf5', which is not there"),
                       ("empty.hdf5", "the data set has no observations")):
        assert text in program("offline-dqn", "--data", name, "--device", "cpu", wanted=2).stderr
    assert not os.path.exists("runs")
