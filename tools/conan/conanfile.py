"""Conan 2 recipe of the checkout that it lies in: conan create tools/conan --build=missing

Ocellus finds its libraries on the system, so the recipe asks the system's package manager for them (Conan's
tools.system.package_manager:mode says whether it may install) and takes nothing from a remote.
"""
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.system.package_manager import Apt


class OcellusRecipe(ConanFile):
    name = "ocellus"
    version = "0.1.0"
    license = "Apache-2.0"
    description = "Small vision-language models inside one memory budget"
    topics = ("vision-language", "robotics", "embedded", "gguf")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "cuda": [True, False], "library": [True, False]}
    default_options = {"shared": False, "cuda": False, "library": True}

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("Ocellus runs on Linux, x86-64 and aarch64")

    def package_id(self):
        self.info.settings.rm_safe("compiler.cppstd")  # it is built as C++20 whatever its users are

    def system_requirements(self):
        packages = ["pkg-config", "libstb-dev", "libhwy-dev", "libutf8proc-dev", "libxxhash-dev",
                    "libjpeg-dev", "libwebp-dev", "zlib1g-dev"]
        Apt(self).install(packages + (["libsqlite3-dev"] if self.options.library else []), check=True)

    def layout(self):
        cmake_layout(self)

    def export_sources(self):
        root = Path(self.recipe_folder).resolve().parents[1]
        for pattern in ["CMakeLists.txt", "LICENSE", "platform/*", "quant/*", "kernels/*", "mm/*", "runtime/*",
                        "tools/cmake/*", "apps/examples/*"]:
            copy(self, pattern, root, self.export_sources_folder)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({
            "CMAKE_INSTALL_LIBDIR": "lib", "OCELLUS_BUILD_APPS": False, "OCELLUS_BUILD_TESTS": False,
            "OCELLUS_SHARED": bool(self.options.shared), "OCELLUS_CUDA": "ON" if self.options.cuda else "OFF",
            "OCELLUS_JPEG": "ON", "OCELLUS_HEIF": "OFF", "OCELLUS_SQLITE": "ON" if self.options.library else "OFF"})
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "ocellus")
        self.cpp_info.set_property("cmake_target_name", "ocellus::ocellus")
        self.cpp_info.set_property("pkg_config_name", "ocellus")
        self.cpp_info.libs = ["ocellus"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["hwy", "utf8proc", "jpeg", "z", "pthread", "m", "stdc++"]
            if self.options.library:
                self.cpp_info.system_libs.append("sqlite3")
            if self.options.cuda:
                self.cpp_info.system_libs += ["cudart_static", "cublasLt", "dl", "rt"]
