#!/usr/bin/env python3
"""Holds the bounds of `plan --machine` against what `bench` measured: nothing may be faster.

usage: check_bounds.py PROGRAM RESULTS [--machine NAME] [--within FACTOR]

RESULTS: a folder that gpu_bench.sh has just written on this machine, or a file by record_gpu.py (with --machine).
With --within, decoding one token at a time with 2e9 parameters or more may take FACTOR times as long as the bound at most.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

from record_gpu import summary


def plan(arguments, bench, *limits):
    words = bench["command"].split()
    shape = [word for flag in ("--shape", "--format") if flag in words for word in (flag, words[words.index(flag) + 1])]
    device = ["--device", "cuda"] if arguments.machine == "this" else []
    done = subprocess.run([arguments.program, "plan", "--json", "--quiet", "--machine", arguments.machine, *device, *shape,
                           *limits], stdout=subprocess.PIPE, check=False)
    return json.loads(done.stdout)


def compare(arguments, bench):
    """(row, measured, bound) in units per second."""
    rows = {name: row["median"] for name, row in bench["rows"].items()}
    for name, rate in rows.items():
        if re.fullmatch(r"tg\d+", name):
            yield name, rate, plan(arguments, bench, "--images", "0")["machine"]["decode_tok_s"]
        if re.fullmatch(r"pp\d+", name):
            bound = plan(arguments, bench, "--images", "0", "--text-tokens", name[2:])["machine"]
            yield name, rate, int(name[2:]) * 1e3 / bound["first_token_ms"]
    if "image encode" in rows:
        most = plan(arguments, bench, "--images", "1")  # of as many views as a picture may have
        share = rows["image tokens"] / most["image_rows"]
        yield "image encode", 1e3 / rows["image encode"], 1e3 / (most["machine"]["encode_ms"] * share)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--machine", default="this")
    parser.add_argument("--within", type=float)
    arguments = parser.parse_args()
    if arguments.results.is_dir():
        benches = {path.stem: summary(path) for path in sorted(arguments.results.glob("bench_*.json"))}
    else:
        benches = json.loads(arguments.results.read_text())["benches"]
    wrong = 0 if benches else 1
    for title, bench in benches.items():
        for name, rate, bound in compare(arguments, bench):
            slow = arguments.within and name[:2] == "tg" and bench["parameters"] >= 2e9 and rate * arguments.within < bound
            wrong += bool(slow or rate > bound)
            print(f"{title} {name}: {100 * rate / bound:.1f} % of the bound" + " TOO SLOW" * bool(slow) +
                  " FASTER" * (rate > bound))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
