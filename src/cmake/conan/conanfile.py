# SPDX-License-Identifier: MIT
"""The C library and gpureplay-train as a package of Conan 2, from the source tree around this file:

    conan create src/cmake/conan --build=missing
    conan create src/cmake/conan -o "&:with_openblas=False" ...      without one of what it is built with
"""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy

WITH = {"with_openblas": ("BLAS", ["openblas/[>=0.3.20 <1]"]), "with_zstd": ("ZSTD", ["zstd/[>=1.5 <2]"]),
        "with_files": ("FILES", ["cjson/[>=1.7 <2]", "xxhash/[>=0.8 <1]"])}


class Gpureplay(ConanFile):
    name = "gpureplay"
    description = "Experience replay in the memory of the device that trains on it"
    license = "MIT"
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {name: [True, False] for name in WITH}
    default_options = dict.fromkeys(WITH, True)

    def _root(self):
        return Path(self.recipe_folder).parents[2]

    def set_version(self):
        header = (self._root() / "include/gpureplay/status.h").read_text(encoding="utf-8")
        self.version = ".".join(re.findall(r"#define GPUR_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "include/*", "kernels/*", "src/*", "examples/*"):
            copy(self, pattern, self._root(), self.export_sources_folder)

    def configure(self):
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def requirements(self):
        for option, (_, packages) in WITH.items():
            for package in packages if self.options.get_safe(option) else ():
                self.requires(package)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for option, (switch, _) in WITH.items():
            toolchain.cache_variables[f"GPUREPLAY_{switch}"] = "ON" if self.options.get_safe(option) else "OFF"
        toolchain.cache_variables |= {"GPUREPLAY_DNNL": "OFF", "GPUREPLAY_CUDA": "OFF"}
        toolchain.user_presets_path = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, str(Path(self.package_folder) / "licenses"))
        CMake(self).install()

    def package_info(self):
        self.cpp_info.libs = ["gpureplay"]
        self.cpp_info.set_property("cmake_find_mode", "none")  # the library's own files for find_package are there
        self.cpp_info.builddirs = ["lib/cmake/gpureplay"]
