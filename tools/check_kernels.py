#!/usr/bin/env python3
"""Checks what ptxas -v says of kernels for compute capability 8.7 (Orin): check_kernels.py LOG

ptxas refuses more than 48 KB of static shared memory, and launch bounds hold it to the 65,536 registers; a block without
them may have 1,024 threads, 64 registers each. Dynamic shared memory: kernels/base/device_limits.cuh.
"""
import pathlib
import re
import sys

UNBOUNDED_REGISTERS = 64
# Spilled bytes of a kernel's instances, at most: those of long heads (512), and of products of block formats.
SPILLED_BYTES = {"attend_packed_piece": 3072, "attend_piece": 3072, "find_ranges": 256, "multiply_per_warp": 192,
                 "multiply_rows": 128, "multiply_tiles": 96}
OTHER_SPILLED_BYTES = 32

REPORT = re.compile(r"Compiling entry function '(\S+)' for 'sm_87'.*?(\d+) bytes spill stores.*?"
                    r"Used (\d+) registers", re.DOTALL)
UNIT = re.compile(r"_GLOBAL__N__[0-9a-f]{8}_\d+_(\w+?_cu)_[0-9a-f]{8}")  # differs by what a file includes
DECLARATION = re.compile(r"__global__ void(.*?)\{", re.DOTALL)


def read_bounds(declaration):
    while "(" in declaration:
        declaration = re.sub(r"\([^()]*\)", "", declaration)
    return declaration.split()[-1], "__launch_bounds__" in declaration


def find_faults(kernels, bounds):
    for mangled, (spilled, registers) in sorted(kernels.items()):
        name = max((n for n in bounds if f"{len(n)}{n}" in mangled), key=len, default=mangled)
        most = SPILLED_BYTES.get(name, OTHER_SPILLED_BYTES)
        if registers > UNBOUNDED_REGISTERS and not bounds.get(name):
            yield f"{name} has {registers} registers: more than {UNBOUNDED_REGISTERS} need __launch_bounds__"
        if spilled > most:
            yield f"{name} spills {spilled} bytes of registers, {most} are allowed here: {mangled}"


def main():
    log = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")
    # The last report of a kernel that was compiled again.
    kernels = {UNIT.sub(r"\1", name): (int(spilled), int(used)) for name, spilled, used in REPORT.findall(log)}
    sources = "".join(path.read_text(encoding="utf-8") for path in pathlib.Path("kernels").rglob("*.cu*"))
    faults = list(find_faults(kernels, dict(map(read_bounds, DECLARATION.findall(sources)))))
    for fault in faults:
        print("check_kernels:", fault, file=sys.stderr)
    spilling = sum(spilled > 0 for spilled, _ in kernels.values())
    print(f"check_kernels: {len(kernels)} kernels for 8.7, {spilling} spill registers; {len(faults)} problems")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
