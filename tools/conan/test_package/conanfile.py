"""Builds an example with the package and runs it: how many pictures fit in so much memory."""
from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class OcellusTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        models = Path(self.recipe_folder).resolve().parents[2] / "apps/models"
        if can_run(self):
            program = Path(self.build_folder) / self.cpp.build.bindir / "budget"
            self.run(f"{program} {models}/shapeboard-34m-q8_0.gguf "
                     f"{models}/mmproj-shapeboard-34m-q8_0.gguf 128", env="conanrun")
