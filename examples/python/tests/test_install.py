"""What is installed: files, tags of the wheel, the calls of the headers that it reaches."""
import fnmatch
import importlib.metadata
import pathlib
import re
import sys

import miras
import pytest
from miras._miras import lib

HERE = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = pathlib.Path(miras.__file__).parent


def test_files():
    """Those of the package, the licence, and nothing that only a build or a test needs."""
    files = [str(path).replace("\\", "/") for path in importlib.metadata.files("miras")]
    notes = [name for name in files if ".dist-info/" in name]
    if not notes or any("__editable__" in name for name in files):
        pytest.skip("the package is not installed from a wheel")
    assert any(name.endswith("/LICENSE") for name in notes)
    rest = {name for name in set(files) - set(notes) if "__pycache__" not in name}
    names = ("__init__.py", "_core.py", "_memory.py", "_miras.pyi", "_model.py", "py.typed",
             "torch.py")
    binary = rest - {f"miras/{name}" for name in names}
    assert len(rest) == len(names) + 1 and re.match(r"miras/_miras\.", binary.pop())
    licence = next(name for name in importlib.metadata.files("miras") if name.name == "LICENSE")
    assert "MIT License" in licence.read_text() and "UNLICENSE" in licence.read_text().upper()
    tags = importlib.metadata.distribution("miras").read_text("WHEEL")
    if sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)():
        assert "\nTag: cp39-abi3-" in tags       # one for all versions


OBJECTS = ("memory", "model", "trainer", "session")
KINDS = {"Held": OBJECTS, "Running": ("memory", "session"),
         **{kind.capitalize(): (kind,) for kind in OBJECTS + ("ledger",)}}


def reached():
    """The calls that the package makes, by their names or as verbs of an object."""
    for path in PACKAGE.glob("*.py"):
        for part in re.split(r"\n(?=class |def |@)", path.read_text()):
            yield from re.findall(r"\b_?lib\.(miras_\w+)", part)
            verbs = re.findall(r'\b_(?:call|ask_why|of|block|answered)\("(\w+)"', part)
            for kind in KINDS.get((re.match(r"class (\w+)", part) or ["", ""])[1], ()):
                yield from (f"miras_{kind}_{verb}" for verb in verbs)
    for kind in OBJECTS:
        yield from (f"miras_{kind}_desc_{verb}" for verb in ("field", "get", "set", "change"))


def test_every_call_is_reached_or_named():
    calls = {name for name in dir(lib) if name.startswith("miras_")}
    calls = {name for name in calls if callable(getattr(lib, name))}
    missing = {name[6:] for name in calls - set(reached())}
    page = (HERE / "README.md").read_text()
    said = re.search(r"C programs have more calls:(.*?)\n\n", page, re.S)[1]
    names = re.findall(r"`([\w*]+)`", said)
    assert len(calls) > 100
    assert {name for name in missing if not any(fnmatch.fnmatch(name, n) for n in names)} == set()
    assert [n for n in names if not fnmatch.filter(missing, n)] == []
