# SPDX-License-Identifier: MIT
"""What `pip install .` installs, by what pip itself calls: a wheel that was built from nothing but the source archive,
and the editable form. Without CUDA, optimization and kernels for more than one instruction set, which take longest."""

import email
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

USE = """
import gpureplay
from gpureplay import _accelerator, _library
buffer = gpureplay.ReplayBuffer(100, {"x": ((2,), "float32")}, device="cpu")
buffer.add(x=[1, 2])
print(buffer.sample(1).x.tolist(), gpureplay.__file__, _library.path, _accelerator.fast is not None, sep="\\n")
"""


def clean():
    """The environment of a user without a build of the library."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("GPUREPLAY_", "PYTHONPATH"))}


def build_wheel_of(hook, source, out):
    """The file that a hook of the build backend makes of a source folder, in `out`. Object files are reused."""
    settings = {"build-dir": str(source.parent / "build"), "cmake.define.GPUREPLAY_CUDA": "OFF",
                "cmake.define.GPUREPLAY_HAS_X86_64_V4": "OFF", "cmake.build-type": "Debug"}
    given = {} if hook == "build_sdist" else settings
    code = f"import scikit_build_core.build as b; print(b.{hook}({str(out)!r}, {given!r}))"
    made = subprocess.run([sys.executable, "-c", code], cwd=source, env=clean(), capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    return out / made.stdout.splitlines()[-1]


def unpacked(archive, folder):
    opened = zipfile.ZipFile(archive) if archive.suffix == ".whl" else tarfile.open(archive)
    with opened:
        opened.extractall(folder)
    return folder


def use(site):
    """What USE prints if this folder is site-packages, with pip's hooks in it."""
    code = f"import site; site.addsitedir({str(site)!r}); {USE}"
    made = subprocess.run([sys.executable, "-c", code], cwd=site, env=clean(), capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return made.stdout.splitlines()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The source archive, unpacked."""
    pytest.importorskip("scikit_build_core", reason="scikit-build-core is not installed here")
    folder = tmp_path_factory.mktemp("source")
    (inside,) = unpacked(build_wheel_of("build_sdist", ROOT, folder), folder / "unpacked").iterdir()
    return inside


def the_description_can_stand_alone(metadata, site):
    """A package index shows it, where no file of ours is. Its example runs."""
    text = email.message_from_string(metadata.read_text(encoding="utf-8")).get_payload()
    assert not [link for link in re.findall(r"\]\(([^)]*)\)", text) if not link.startswith("https://")]
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
    if importlib.util.find_spec("gymnasium"):
        code = f"import site; site.addsitedir({str(site)!r}); {example}"
        made = subprocess.run([sys.executable, "-c", code], cwd=site, env=clean(), capture_output=True, text=True)
        assert made.returncode == 0, made.stderr


def has_headers():
    return (Path(sysconfig.get_path("include")) / "Python.h").is_file()


def test_the_wheel_of_the_source_archive_has_what_it_needs_and_nothing_else(source, tmp_path):
    site = unpacked(build_wheel_of("build_wheel", source, tmp_path), tmp_path / "site")
    found = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    ours = {name for name in found if ".dist-info/" not in name}
    python = {f"gpureplay/{path.name}" for path in (ROOT / "src/python/gpureplay").glob("*.py*")}
    suffix = sysconfig.get_config_var("EXT_SUFFIX") if sys.version_info < (3, 10) else ".abi3.so"
    fast = {f"gpureplay/_fast{suffix}"} if has_headers() else set()
    jax = {"gpureplay/libgpureplay_jax.so"} if importlib.util.find_spec("jaxlib") else set()
    assert ours == python | fast | jax | {"gpureplay/py.typed", "gpureplay/libgpureplay.so"}
    assert any(name.endswith("LICENSE") for name in found - ours)
    the_description_can_stand_alone(next(site.glob("*.dist-info/METADATA")), site)
    assert use(site) == ["[[1.0, 2.0]]", str(site / "gpureplay/__init__.py"), str(site / "gpureplay/libgpureplay.so"),
                         str(has_headers())]


def test_an_editable_install_runs_the_sources_and_finds_what_was_built(source, tmp_path):
    site = unpacked(build_wheel_of("build_editable", source, tmp_path), tmp_path / "site")
    assert use(site) == ["[[1.0, 2.0]]", str(source / "src/python/gpureplay/__init__.py"),
                         str(site / "gpureplay/libgpureplay.so"), str(has_headers())]
