#!/usr/bin/env python3
"""Checks the direction of every #include: platform < quant < kernels < mm < runtime < apps, and inside them by FLOORS.

A file includes its own folder and the ones below it. A header that stands in a folder itself, beside its floors, is for
all of them, and a source there may use all of them. A folder inside a floor of the library is a room: it holds the parts
of one op, and only its floor includes it. A branch, a folder of runtime/branches/, is a room that no other branch includes:
a build may leave each out. A folder with sources stands on a floor. The program in apps/ is built on the public C API alone. Tests and
tools may include everything except that nothing outside tests/ includes tests/. Quoted paths start at the repository.
Exceptions are Highway's headers, quoted by its own custom, and the public headers, which are installed together: they
include each other by name alone, and nothing else.

No source of the library or the program asks whether its build has CUDA: that is for CMake and cuda_absent.cpp, so that a
plan for a GPU is made by the same code in every build.
"""
import re
import sys
import tempfile
from pathlib import Path

LAYERS = ["platform", "quant", "kernels", "mm", "runtime", "apps"]
FLOORS = {
    "kernels": ["base", "linear", "rows", "attention", "cache", "vision", "sampling", "search", "choice"],
    "mm": ["pictures", "views", "tower"],
    "runtime": ["vocabulary", "models", "cache", "policy", "forward", "engine", "session", "api", "branches"],
    "apps": ["base", "plot", "help", "hub", "camera", "setup", "day", "http", "serve", "watch", "commands"],
}
# folder: reason
NO_FLOOR = {"apps/examples": "programs of their own, on the public headers alone",
            "apps/python": "functions that Python calls, on the public headers alone"}
ABOVE_ALL = ["tools", "tests"]
QUOTED_LIBRARIES = ["hwy"]
PUBLIC_HEADER = re.compile(r"runtime/ocellus\w*\.h(pp)?")  # installed, in one folder
# (file, what it includes): reason
EXCEPTIONS = {
    ("apps/base/printable_text.h", "platform/printable_text.h"): "what a terminal may be told is decided in one place, "
                                                                 "for the library's sentences and the program's output",
    ("apps/camera/jpeg_repair.cpp", "mm/pictures/jpeg_markers.h"): "cameras' JPEGs are completed by the markers that the "
                                                                   "library reads",
    ("apps/camera/jpeg_splitter.cpp", "mm/pictures/jpeg_markers.h"): "their streams are split by them",
}
BUILT_WITH_CUDA = "OCELLUS_HAS_CUDA"
SUFFIXES = {".h", ".hpp", ".cpp", ".c", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def floor(path):
    """The number of a file's floor in its folder; None if it stands on none."""
    parts = path.split("/")
    floors = FLOORS.get(parts[0], [])
    return floors.index(parts[1]) if len(parts) > 2 and parts[1] in floors else None


def room(path):
    """The floor of a file that stands in a room, as a path; else None."""
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 3 and parts[0] in LAYERS[:-1] else None


def branch(path):
    """The branch that a file is a part of; None if it is of none."""
    parts = path.split("/")
    return parts[2] if len(parts) > 3 and parts[:2] == ["runtime", "branches"] else None


def allowed(path, target):
    """Whether the file `path` may include the file `target`."""
    folder, target_folder = path.split("/")[0], target.split("/")[0]
    if room(target) is not None and folder not in ABOVE_ALL and not path.startswith(room(target) + "/"):
        return False
    if None not in (branch(path), branch(target)) and branch(path) != branch(target):
        return False
    if folder == target_folder and None not in (floor(path), floor(target)) and floor(path) < floor(target):
        return False
    if target_folder == "tests":
        return folder == "tests"
    if folder in ABOVE_ALL:
        return True
    if folder == "apps":
        return target_folder == "apps" or PUBLIC_HEADER.fullmatch(target) is not None
    return target_folder in LAYERS[:LAYERS.index(folder) + 1]


def find_problems(root):
    """One sentence per wrong include below `root`."""
    problems = []
    for folder in LAYERS + ABOVE_ALL:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            text = path.read_text(encoding="utf-8")
            name = str(path.relative_to(root))
            if folder in FLOORS and "/" in str(path.parent.relative_to(root)) and floor(name) is None \
                    and "/".join(name.split("/")[:2]) not in NO_FLOOR:
                problems.append(f"{name}: its folder is on no floor")
            if folder in LAYERS and BUILT_WITH_CUDA in text:
                problems.append(f"{name}: asks for {BUILT_WITH_CUDA}, so that builds may plan differently for a GPU")
            for match in INCLUDE.finditer(text):
                target = match.group(1)
                place = f"{name}:{text.count(chr(10), 0, match.start(1)) + 1}"
                if target.split("/")[0] in QUOTED_LIBRARIES:
                    continue
                if PUBLIC_HEADER.fullmatch(name):
                    beside = f"runtime/{target}"
                    if not PUBLIC_HEADER.fullmatch(beside) or not (root / beside).is_file():
                        problems.append(f'{place}: "{target}" is no public header, which this one is')
                elif not (root / target).is_file():
                    problems.append(f'{place}: "{target}" is not a path from the root of the repository')
                elif not allowed(name, target) and (name, target) not in EXCEPTIONS:
                    problems.append(f'{place}: {name.rpartition("/")[0]}/ may not include "{target}"')
    return problems


def self_test():
    """Every rule must be able to fail, and a sound tree must pass."""
    sound = {
        "platform/status.h": "",
        "kernels/tile.cuh": '#include "platform/status.h"\n',
        "kernels/linear/add.h": '#include "kernels/tile.cuh"\n',
        "kernels/linear/add/plan.h": "",
        "kernels/linear/add.cu": '#include "kernels/linear/add/plan.h"\n',
        "kernels/cache/pack.h": '#include "kernels/linear/add.h"\n',
        "kernels/add.cu": '#include "kernels/tile.cuh"\n',
        "runtime/ocellus.h": '#include "ocellus_plan.h"\n',
        "runtime/ocellus_plan.h": '#include "ocellus.h"\n#include <stdint.h>\n',
        "runtime/ocellus.hpp": '#include "ocellus.h"\n',
        "runtime/session/session.h": '#include "platform/status.h"\n#include "hwy/highway.h"\n',
        "runtime/branches/all.h": "",
        "runtime/branches/draft/draft.h": '#include "runtime/branches/all.h"\n#include "runtime/session/session.h"\n',
        "runtime/branches/measure/score.h": '#include "runtime/branches/all.h"\n',
        "apps/main.cpp": '#include "runtime/ocellus.hpp"\n#include <vector>\n',
        "tests/support/guard.h": "",
        "tests/runtime/session/session_test.cpp": '#include "tests/support/guard.h"\n#include "runtime/session/session.h"\n',
        "tools/bench/session_bench.cpp": '#include "runtime/session/session.h"\n',
    }
    broken = {
        "kernels/linear/add.h": '#include "kernels/cache/pack.h"\n',
        "kernels/cache/pack.h": '#include "kernels/linear/add/plan.h"\n',
        "kernels/tile.cuh": '#include "runtime/session/session.h"\n',
        "kernels/add.cu": '#include "runtime/session/session.h"\n',
        "kernels/linear/add.cu": "#if OCELLUS_HAS_CUDA\n#endif\n",
        "platform/status.h": '#include "runtime/session/session.h"\n',
        "apps/main.cpp": '  #  include "runtime/session/session.h"\n',
        "runtime/session/session.h": '#include "tests/support/guard.h"\n',
        "tools/bench/session_bench.cpp": '#include "tests/support/guard.h"\n',
        "runtime/session/mark.h": '#include "runtime/branches/draft/draft.h"\n',
        "runtime/branches/measure/score.h": '#include "runtime/branches/draft/draft.h"\n',
        "kernels/elsewhere/pick.h": "",
        "runtime/ocellus.h": '#include "status.h"\n',
        "runtime/ocellus_plan.h": '#include "ocellus_gone.h"\n',
        "runtime/ocellus.hpp": '#include "runtime/session/session.h"\n',
    }
    for changed in [None, *broken]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in {**sound, **({changed: broken[changed]} if changed else {})}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            problems = find_problems(root)
        if len(problems) != (1 if changed else 0):
            sys.exit(f"check_layers.py: self-test failed: a change of {changed} gave {problems}")
    print(f"check_layers.py: self-test: {len(broken)} broken trees found, the sound one passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    problems = find_problems(Path(__file__).resolve().parent.parent)
    print("\n".join(problems + [f"check_layers.py: {len(problems)} problems"]))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
