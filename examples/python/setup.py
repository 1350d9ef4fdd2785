"""setup.py: the version, the headers that an sdist carries, one wheel for all versions of Python, a
folder for what a build leaves."""
import atexit
import os
import shutil
import sys
import sysconfig
import tempfile

from setuptools import setup
from setuptools.command.sdist import sdist

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import miras_build  # noqa: E402 (it lies beside this file)


class WithHeaders(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        os.makedirs(os.path.join(base_dir, "include"), exist_ok=True)
        for path in miras_build.HEADERS:
            shutil.copy(path, os.path.join(base_dir, "include"))


build = tempfile.mkdtemp(prefix="miras-build-")   # and nothing in the checkout
atexit.register(shutil.rmtree, build, True)
options = {"build": {"build_base": build}, "egg_info": {"egg_base": build}}
if sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    options["bdist_wheel"] = {"py_limited_api": "cp39"}   # what cffi writes keeps to it
setup(version=miras_build.VERSION, cmdclass={"sdist": WithHeaders},
      cffi_modules=["miras_build.py:ffi"], options=options)
