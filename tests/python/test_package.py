# SPDX-License-Identifier: MIT
"""The package itself: how it finds the library, its messages, what a type checker reports."""

import ctypes
import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import gpureplay
import pytest
from gpureplay import _c_api, _device, _library, _load, _show, _struct
from support import run

ROOT = Path(__file__).resolve().parents[2]
once = pytest.mark.skipif(os.environ.get("GPUREPLAY_FAST") != "off", reason="once is enough: without _fast")


def test_the_mirror_has_the_sizes_of_the_library():
    assert len(_c_api.STRUCTS) == len({struct.c_name for struct in _c_api.STRUCTS}) >= 14
    for struct in _c_api.STRUCTS:
        assert _library.lib.gpur_struct_size(struct.c_name.encode()) == ctypes.sizeof(struct)
    assert _library.lib.gpur_struct_size(b"gpur_abacus") == -1 == _library.lib.gpur_struct_size(None)


def test_tuples_of_structs_are_values():
    device = gpureplay.Device("cpu").info
    assert isinstance(device.name, str) and device.is_cuda is False and "bytes" in type(device).__doc__
    lags = _c_api.RunStats()
    lags.ga3c.lags[3], lags.fast_dqn.inferred = 7, 5
    stats = _struct.read_tuple(gpureplay.GA3CStats, lags)
    assert stats.lags[3] == 7 and len(stats.lags) == _c_api.GA3C_LAGS
    assert _struct.read_tuple(gpureplay.RunStats, lags).inferred == 5
    for given in (device, stats):
        assert pickle.loads(pickle.dumps(given)) == given and hash(given) and type(given) is type(given._replace())


def build(tmp_path, source):
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to make another version of the library with")
    (tmp_path / "fake.c").write_text(source, encoding="utf-8")
    library = tmp_path / "libfake.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", tmp_path / "fake.c", "-o", library], check=True)
    return library


def fake(without=None, struct="gpur_dqn_config"):
    """A library with every function, one of whose structs is 8 bytes longer."""
    sizes = "".join(f'if (!strcmp(name, "{s.c_name}")) return {ctypes.sizeof(s) + 8 * (s.c_name == struct)};'
                    for s in _c_api.STRUCTS)
    names = set(_c_api.FUNCTIONS) - {"gpur_struct_size", without}
    return ("#include <string.h>\n" + "".join(f"int {name}(void) {{ return 0; }}\n" for name in sorted(names))
            + f"long long gpur_struct_size(const char *name) {{ {sizes} return -1; }}\n")


def test_a_library_whose_structs_differ_is_refused(tmp_path):
    library = build(tmp_path, fake())
    size = ctypes.sizeof(_c_api.DQNConfig)
    text = f"gpur_dqn_config has {size + 8} bytes in .*libfake.so and {size} in this package"
    with pytest.raises(RuntimeError, match=text):
        _load.load(library)


def test_a_library_that_lacks_a_function_is_refused(tmp_path):
    library = build(tmp_path, fake(without="gpur_batch_to_dlpack"))
    with pytest.raises(RuntimeError, match="libfake.so has no gpur_batch_to_dlpack; it is of another version"):
        _load.load(library)


def test_the_path_in_the_environment_must_be_a_file(tmp_path):
    missing = str(tmp_path / "nothing.so")
    _, err = run("import gpureplay", preamble="", wanted=1, GPUREPLAY_LIBRARY=missing)
    assert f"ImportError: GPUREPLAY_LIBRARY is {missing!r}, where there is no file; it must be the path" in err


def test_show_config_prints_what_is_here(capsys):
    gpureplay.show_config()
    out = capsys.readouterr().out
    assert f"gpureplay {gpureplay.__version__}" in out and f"library: {_library.path}" in out
    assert "cpu: " in out and "GB free" in out and "cuda:0: " in out and "GPU driver: " in out
    assert all(line.strip() in out for line in _library.lib.gpur_build_info().decode().splitlines())
    if "cuda: not built" in out:
        assert "install NVIDIA's CUDA toolkit" in out


def fails(*_, **__):
    raise gpureplay.Unavailable("cuBLAS was not found")


@pytest.mark.parametrize("built, driver, trains, wanted", [
    ("not built: no nvcc", "none", True, "CUDA: install NVIDIA's CUDA toolkit"),
    ("13.0, architectures 90", "none found", True, "a GPU driver: `sudo apt install nvidia-driver`"),
    ("13.0, architectures 90", "CUDA 13.0", False, 'cuBLAS, for the learner on a GPU: `pip install "gpureplay[cuda13]'),
    ("12.8, architectures 90", "CUDA 13.0", False, 'cuBLAS, for the learner on a GPU: `pip install "gpureplay[cuda12]'),
    ("13.0, architectures 90", "CUDA 13.0", True, "nothing"),
])
def test_what_is_missing_comes_with_the_command(monkeypatch, capsys, built, driver, trains, wanted):
    """The CPU plays the part of a GPU."""
    device = _show.Device
    monkeypatch.setattr(_show, "_build", lambda: {"cuda": built, "blas": "OpenBLAS"})
    monkeypatch.setattr(_show, "_driver", lambda: driver)
    monkeypatch.setattr(_show, "Device", lambda name: device("cpu"))
    if not trains:
        monkeypatch.setattr(_show, "DQN", fails)
    gpureplay.show_config()
    out = capsys.readouterr().out
    assert "".join(out.partition("missing:")[1:]).split(None, 1)[1].startswith(wanted)
    assert ("GB free; it cannot train: cuBLAS was not found" in out) != trains


def test_the_cpu_device_runs_the_best_kernels_that_the_processor_has():
    wanted = ["baseline"]
    if "x86-64-v4" in _show._build()["cpu kernels"]:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\nflags")[2].splitlines()[0].split())
        if flags >= {"avx2", "fma", "bmi1", "bmi2", "popcnt", "f16c", "movbe", "abm"}:
            wanted.append("x86-64-v3")
            if flags >= {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}:
                wanted.append("x86-64-v4")
    with gpureplay.Device("cpu") as device:
        assert f"kernels {wanted[-1]}," in device.info.description


def test_what_was_not_built_in_comes_with_the_command():
    for key, wanted in (
            ("blas", "OpenBLAS, for quick matrix products on the CPU: `sudo apt install libopenblas-openmp-dev`"),
            ("dnnl", "oneDNN, for quick convolutions on the CPU: `sudo apt install libdnnl-dev`"),
            ("files", "cJSON and xxHash, for saving and loading: `sudo apt install libcjson-dev libxxhash-dev`"),
            ("zstd", "Zstandard, for compressed blocks: `sudo apt install libzstd-dev`")):
        assert key in _show._build()
        build = {"blas": "", "dnnl": "", "files": "", "zstd": "", key: "none, because"}
        assert _show._missing(build, "CUDA 13.0", False) == [
            f"{wanted} (Debian, Ubuntu), then `pip install --force-reinstall --no-cache-dir .` in the folder of the "
            "sources"]


def test_what_this_build_lacks_comes_with_pips_command(monkeypatch):
    """Beside CMake's, which the library's own text has."""
    text = "made without cJSON or xxHash. Debian: apt install libcjson-dev, then configure and build again"
    monkeypatch.setattr(_library, "last_error", lambda: text)
    error = _library.failed(_c_api.UNAVAILABLE)
    assert type(error) is gpureplay.Unavailable
    assert str(error).startswith(text)
    assert "`pip install --force-reinstall --no-cache-dir .` in the folder" in str(error)
    assert str(_library.failed(_c_api.FILE_ERROR)) == text
    monkeypatch.setattr(_library, "last_error", lambda: "cuBLAS was not found")
    assert str(_library.failed(_c_api.UNAVAILABLE)) == "cuBLAS was not found"


@pytest.mark.parametrize("make", [lambda: gpureplay.Device(), lambda: gpureplay.ReplayBuffer(10, {"x": "uint8"}),
                                  lambda: gpureplay.ReplayBuffer(10, {"x": "uint8"}, device="auto")])
def test_a_build_without_cuda_warns_once_and_where_it_was_asked(monkeypatch, make):
    monkeypatch.setattr(_device, "_warned", False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for device in ("cpu", "cpu"):
            gpureplay.Device(device)
        assert not caught
        make()
        make()
    if "cuda: not built" not in _library.lib.gpur_build_info().decode():
        assert not caught
        return
    (warning,) = caught
    assert warning.category is RuntimeWarning and "built without CUDA" in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.filterwarnings("ignore:this gpureplay was built without CUDA")
def test_what_the_library_says_is_logged(caplog):
    with caplog.at_level("INFO", "gpureplay"):
        device = gpureplay.Device("auto")
    if not device.is_cuda:
        assert any("auto: using the CPU" in record.message for record in caplog.records)


def test_every_status_is_an_exception_of_its_own():
    kinds = {gpureplay.InvalidArgument: ValueError, gpureplay.OutOfMemory: MemoryError, gpureplay.TooFew: LookupError,
             gpureplay.Unavailable: RuntimeError, gpureplay.DeviceError: RuntimeError, gpureplay.Closed: ValueError,
             gpureplay.WouldBlock: Exception}
    for kind, builtin in kinds.items():
        assert issubclass(kind, gpureplay.GpureplayError) and issubclass(kind, builtin)
    of_refusals = {_library._EXCEPTIONS[status] for status in range(1, 6)}
    assert of_refusals == set(kinds) - {gpureplay.DeviceError, gpureplay.Closed}
    assert type(_library.failed(-1)) is gpureplay.DeviceError


def test_the_prototypes_of_pythons_own_functions_are_left_alone():
    """All users of ctypes.pythonapi share them."""
    out, _ = run("""
import ctypes
names = ["PyCapsule_New", "PyCapsule_IsValid", "PyCapsule_GetPointer", "Py_IncRef"]
def prototypes():
    return [(function.restype, function.argtypes) for function in (getattr(ctypes.pythonapi, name) for name in names)]
before = prototypes()
import gpureplay
print(before == prototypes())
""", preamble="")
    assert out == "True\n"


# What a type checker reports, with the settings of pyproject.toml.


USER = """
import numpy as np
import gpureplay

buffer = gpureplay.ReplayBuffer(100, {"obs": ((4,), "float32")}, device="cpu", num_envs=2)
added: int = buffer.add(obs=np.ones((2, 4)))
batch: gpureplay.Batch = buffer.sample(32)
where: str = batch.device
array: gpureplay.Array = batch.array("obs")
weights: np.ndarray = gpureplay.DQN(buffer, 2).weights["value.out.bias"]
buffer.smaple(32)  # refused
for transition in batch:  # refused
    pass

agent = gpureplay.DQN(buffer, 2, trunk=[128, (64, "tanh")], learning_rate=(1e-3, 0, 100), loss="huber", double_dqn=True)
gpureplay.DQN(buffer, 2, **{**gpureplay.preset("cartpole").agent, "num_actions": 2})
gpureplay.DQN(buffer, 2, learning_rat=1e-3)  # refused
gpureplay.DQN(buffer, 2, loss="hubber")  # refused
gpureplay.DQN(buffer, 2, trunk=128)  # refused
gpureplay.DDPG(buffer, actor={"trunk": [300, 200]}, critic={"learning_rate": 1e-3}, prioritized="independent")
gpureplay.DDPG(buffer, actor={"trunks": [300]})  # refused
learner = gpureplay.ActorCritic(((4,), "float32"), 2, entropy=(0.1, 0.0, 100), dual_optimizer=True)
gpureplay.ActorCritic(((4,), "float32"), 2, entropy="0.1")  # refused
policy = learner.policy(streams=2, check_nan=False)
learner.policy(stream=2)  # refused
gpureplay.Policy(((4,), "float32"), 2, head="q", max_batch=32).act(np.ones((1, 4)))
gpureplay.Policy(((4,), "float32"), 2, learning_rate=1e-3)  # refused
run = gpureplay.Run(agent, "CartPole-v1", num_envs=4, act="latest", concurrent=True, seed=None)
steps: int = run.stats.env_steps
loss: float = run.stats.lost  # refused
gpureplay.Run(agent, "CartPole-v1", num_envs="four")  # refused
gpureplay.Run(agent, "CartPole-v1", act="previous")  # refused
gpureplay.Apex(agent, "CartPole-v1", epsilons=[0.1], folder=None, initial_priorities="td", samples_per_insert=8)
gpureplay.Apex(agent, "CartPole-v1", actor=3)  # refused
lags: tuple[int, ...] = gpureplay.GA3C(learner, "CartPole-v1", tuner="paper", t_max=5).stats.lags
gpureplay.GA3C(learner, "CartPole-v1", tuner="papers")  # refused
gpureplay.ReplayBuffer.plan(100, {"obs": ((4,), "float32")}, n_step=3, weight_norm="batch")
gpureplay.ReplayBuffer.plan(100, {"obs": ((4,), "float32")}, weight_norm="bacth")  # refused
gpureplay.ReplayBuffer(100, {"obs": ((4,), "float32")}, eviction="newest")  # refused
gpureplay.train_dqn("CartPole-v1", steps=1e6, capacity=10**5, num_envs=8)
gpureplay.train("CartPole-v1", steps="many")  # refused
"""


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Gives the standard output of mypy. The tests share a cache of what it knows of NumPy and of the package."""
    pytest.importorskip("mypy", reason="mypy is not installed here")
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir",
               tmp_path_factory.mktemp("mypy")]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src/python")}
    return lambda *files: subprocess.run([*command, *files], capture_output=True, text=True, cwd=ROOT,
                                         env=environment, check=False).stdout


@once
def test_the_package_holds_under_mypy_strict(mypy):
    out = mypy()
    assert out.startswith("Success: no issues found in "), out


@once
def test_a_user_is_told_of_a_slip_and_of_nothing_else(tmp_path, mypy):
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    out = mypy(tmp_path / "user.py")
    assert '"ReplayBuffer" has no attribute "smaple"' in out
    numbers = [int(line.split(":")[1]) for line in out.splitlines() if "user.py:" in line and ": error:" in line]
    wrong = [number for number, line in enumerate(USER.splitlines(), 1) if line.endswith("# refused")]
    assert numbers == wrong, out


# gpureplay.sb3 where one of the frameworks is not installed.


def python(text):
    """Runs it with the search path of this process."""
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=1200,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})


def test_without_pytorch_the_import_says_what_to_install():
    run = python("import sys; sys.modules['torch'] = None; import gpureplay.sb3")
    assert run.returncode == 1
    assert "ModuleNotFoundError: gpureplay.sb3 makes PyTorch's tensors, and PyTorch is not installed; " \
           "`pip install torch`" in run.stderr


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs PyTorch")
def test_without_stable_baselines3_it_serves_cleanrl():
    run = python("""
import sys; sys.modules["stable_baselines3"] = None
import numpy as np
from gymnasium import spaces
from gpureplay.sb3 import ReplayBuffer
rb = ReplayBuffer(100, spaces.Box(-1, 1, (3,)), spaces.Discrete(2), "cpu", handle_timeout_termination=False)
obs = np.ones((1, 3), np.float32)
rb.add(obs, 2 * obs, np.array([1]), np.array([3.0]), np.array([True]), {})
batch = rb.sample(2)
print(*(tensor.flatten().tolist() for tensor in batch[:5]), batch.discounts)
""")
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == f"{[1.0] * 6} [1, 1] {[2.0] * 6} [1.0, 1.0] [3.0, 3.0] None"
