#!/usr/bin/env python3
"""Shows what a build without branches, with one of them and with all takes on disk: the archive, a C program that
describes a picture, and the whole program, both stripped.

    python3 tools/branch_sizes.py BUILD

BUILD has the tests of such builds (tests/CMakeLists.txt). Prints a table in Markdown; runtime/branches/README.md has it."""
import subprocess
import sys
import tempfile
from pathlib import Path


def stripped_bytes(program):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        subprocess.run(["strip", "-o", out, program], check=True)
        return out.stat().st_size


def object_bytes(build, target):
    return sum(path.stat().st_size for path in (build / "CMakeFiles" / f"ocellus_runtime_branches_{target}.dir").rglob("*.o"))


def main():
    build = Path(sys.argv[1])
    programs = {path.name.removeprefix("caption_with_"): path for path in (build / "tests").glob("caption_with_*")}
    branches = sorted(set(programs) - {"none", "all"})
    absent = {name: sum(path.stat().st_size for path in (build / "tests/CMakeFiles" / f"without_{name}.dir").rglob("*.o"))
              for name in branches}
    archive = (build / "libocellus.a").stat().st_size
    print("| branches | archive, bytes | C program | `ocellus` |\n|---|---:|---:|---:|")
    for kept in ["none", *branches, "all"]:
        left_out = [name for name in branches if kept not in (name, "all")]
        whole = archive - sum(object_bytes(build, name) - absent[name] for name in left_out)
        program = build / ("apps/ocellus" if kept == "all" else f"tests/ocellus_with_{kept}")
        print(f"| {kept} | {whole:,} | {stripped_bytes(programs[kept]):,} | {stripped_bytes(program):,} |")


if __name__ == "__main__":
    main()
