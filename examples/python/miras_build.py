"""miras_build.py: what cffi compiles. The declarations are those of the headers themselves, so that
a new call or field of theirs needs no line here."""
import os
import pathlib
import re
import shlex
import subprocess
import sysconfig

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent                      # of a checkout; an sdist has copies in include
COPIES = HERE / "include"
HEADERS = [COPIES / "miras.h", COPIES / "huggingface.h"]
if not HEADERS[0].exists():
    HEADERS = [ROOT / "miras.h", ROOT / "examples" / "huggingface.h"]
if not HEADERS[0].exists():
    raise SystemExit("miras.h is neither in include nor two folders above this one: build from a "
                     "checkout, or from an sdist that one has made")
TEXTS = [path.read_text() for path in HEADERS]
VERSION = re.search(r'#define MIRAS_VERSION_TEXT "([^"]*)"', TEXTS[0])[1]
POSIX = os.name == "posix"
MACROS = ["MIRAS_PTHREADS"] if POSIX else []


def declarations():
    """The public halves of the headers behind the C preprocessor."""
    public = "\n".join(text.split("\n#if defined(MIRAS_IMPLEMENTATION)")[0]
                       .split("\n#if defined(MIRAS_HUGGINGFACE_IMPLEMENTATION)")[0]
                       for text in TEXTS)
    public = re.sub(r"(?m)^ *#include.*$", "", public)
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    command = compiler + ["-E", "-P", "-undef", "-DMIRAS_API="] + ["-D" + m for m in MACROS]
    done = subprocess.run(command + ["-"], input=public, stdout=subprocess.PIPE, text=True,
                          check=True)
    numbers = re.findall(r"(?m)^#define (MIRAS_[A-Z0-9_]+) +\(?-?[0-9]", public)
    return "\n".join([done.stdout] + [f"#define {name} ..." for name in numbers])


def ffi():
    from cffi import FFI
    builder = FFI()
    builder.cdef(declarations())
    source = [f"#define {macro}" for macro in MACROS + [
        "MIRAS_STATIC", "MIRAS_IMPLEMENTATION", "MIRAS_HUGGINGFACE_IMPLEMENTATION"]]
    source += [f'#include "{path.name}"' for path in HEADERS]
    builder.set_source(
        "miras._miras", "\n".join(source), libraries=["m", "pthread"] if POSIX else [],
        include_dirs=sorted({str(path.parent) for path in HEADERS}),
        depends=[str(path) for path in HEADERS],
        extra_compile_args=shlex.split(os.environ.get("CFLAGS") or "-O2 -g0"))
    return builder
