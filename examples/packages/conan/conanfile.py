"""The header as a Conan 2 package, out of the repository that this recipe lies in."""
import os
import re

from conan import ConanFile
from conan.tools.files import copy, load


class Miras(ConanFile):
    name = "miras"
    description = "Memories that learn while the program runs, in one header"
    license = "Unlicense OR MIT"
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"threads": [True, False]}
    default_options = {"threads": False}
    no_copy_source = True
    implements = ["auto_header_only"]
    headers = ("miras.h", "miras_cuda.cuh", "examples/cpp/miras.hpp", "examples/encoders.h",
               "examples/huggingface.h", "examples/gguf.h", "examples/tokenizer.h")

    def _root(self):
        return os.path.abspath(os.path.join(self.recipe_folder, "..", "..", ".."))

    def set_version(self):
        header = load(self, os.path.join(self._root(), "miras.h"))
        self.version = re.search(r'#define MIRAS_VERSION_TEXT "(.*)"', header).group(1)

    def export_sources(self):
        for name in self.headers + ("LICENSE",):
            copy(self, name, self._root(), self.export_sources_folder)

    def package(self):
        include = os.path.join(self.package_folder, "include")
        for name in self.headers:
            copy(self, name, self.source_folder, include, keep_path=False)
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # miras::threads, as the CMake package has it, is what the option adds.
        header = self.cpp_info.components["miras"]
        header.set_property("cmake_target_name", "miras::miras")
        header.bindirs = header.libdirs = []
        if self.settings.get_safe("os") != "Windows":
            header.system_libs = ["m"]
        if self.options.threads:
            threads = self.cpp_info.components["threads"]
            threads.set_property("cmake_target_name", "miras::threads")
            threads.requires = ["miras"]
            threads.bindirs = threads.libdirs = []
            threads.defines = ["MIRAS_PTHREADS"]
            threads.system_libs = ["pthread"]
