#!/usr/bin/env python3
"""Builds the fuzz targets of tests/fuzz under AddressSanitizer and UndefinedBehaviorSanitizer, runs them and counts.

    tools/fuzz.py 120                 two minutes in all, for every target its share
    tools/fuzz.py 3600                an hour
    tools/fuzz.py --engine mutations --runs model=50000,mmproj=50000,png=5000000,jpeg=5000000 --jobs 16
    tools/fuzz.py 60 --target png     one target

Two engines: libFuzzer, where Clang 14 and its runtime (libclang-rt-14-dev) are found, keeps inputs that reach new code
in build/fuzz-corpus; "mutations" needs nothing but the compiler, makes each input from a seed and a number, and repeats
exactly. Inputs at which something went wrong are kept in build/fuzz-faults. Exit code 1 if there were any.
--results FILE writes the counts as JSON.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLANG = "clang++-14"
PRESETS = {"libfuzzer": "fuzz", "mutations": "asan"}
INPUT_SECONDS = 10  # more for one input is a fault
HEAP_MB = 2048


def find_engine():
    """libFuzzer if Clang can link it."""
    if shutil.which(CLANG):
        probe = subprocess.run([CLANG, "-print-file-name=libclang_rt.fuzzer-x86_64.a"], capture_output=True, text=True)
        runtime = subprocess.run([CLANG, "-print-resource-dir"], capture_output=True, text=True).stdout.strip()
        if os.path.isabs(probe.stdout.strip()) or list(Path(runtime).glob("lib/*/libclang_rt.fuzzer*.a")):
            return "libfuzzer"
    return "mutations"


def build(engine, options):
    subprocess.run(["sh", str(ROOT / "tools/build.sh"), PRESETS[engine], "ocellus_fuzz", *options], check=True)
    return ROOT / "build" / PRESETS[engine] / "tests/ocellus_fuzz"


def list_targets(program):
    """The program names its targets where it is asked for one that it does not have."""
    told = subprocess.run([program, "--target=?"], capture_output=True, text=True).stderr
    return told.split("there are ")[-1].split()


def run_mutations(program, target, seconds, runs, arguments):
    command = [program, f"--target={target}", f"--seed={arguments.seed}", f"--jobs={arguments.jobs}",
               f"--runs={runs or 1 << 62}", f"--seconds={0 if runs else max(1, round(seconds))}",
               f"--faults={faults_folder()}"]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output)


def faults_folder():
    folder = ROOT / "build/fuzz-faults"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run_libfuzzer(program, target, seconds, runs, arguments):
    corpus = ROOT / "build/fuzz-corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    limit = [f"-runs={runs}"] if runs else [f"-max_total_time={max(1, round(seconds))}"]
    command = [program, f"--target={target}", f"--seeds={corpus}", *limit, f"-seed={arguments.seed}",
               "-print_final_stats=1", f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={HEAP_MB}",
               f"-artifact_prefix={faults_folder()}/{target}-", corpus]
    start = newest = time.monotonic()
    result = {"target": target, "engine": "libfuzzer", "seed": arguments.seed, "executions": 0, "edges": 0}
    tail = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stderr:
            tail = tail[-40:] + [line]
            progress = re.match(r"#(\d+)\s+\w+.*\bcov: (\d+) ft: \d+ corp: (\d+)", line)
            if progress:
                result["executions"] = int(progress[1])
                if int(progress[2]) > result["edges"]:
                    newest = time.monotonic()
                result["edges"], result["corpus"] = int(progress[2]), int(progress[3])
            stat = re.match(r"stat::(\w+):\s+(\d+)", line)
            if stat and stat[1] in ("number_of_executed_units", "slowest_unit_time_sec", "peak_rss_mb"):
                result[{"number_of_executed_units": "executions", "slowest_unit_time_sec": "worst_s",
                        "peak_rss_mb": "peak_rss_mb"}[stat[1]]] = int(stat[2])
    what = "".join(tail)
    failed = process.returncode != 0
    result["timeouts"] = int(failed and "libFuzzer: timeout" in what)
    result["over_memory"] = int(failed and "libFuzzer: out-of-memory" in what)
    result["crashes"] = int(failed) - result["timeouts"] - result["over_memory"]
    result["seconds"] = round(time.monotonic() - start, 1)
    result["seconds_since_new_edge"] = round(time.monotonic() - newest, 1)
    result["executions_per_second"] = round(result["executions"] / max(result["seconds"], 0.1))
    if failed:
        sys.stderr.write(what)
    return result


def run_all(engine, program, targets, arguments):
    """libFuzzer: as many targets at a time as there are jobs. Mutations: one after another, each with all jobs."""
    at_once = arguments.jobs if engine == "libfuzzer" else 1
    share = arguments.seconds * min(at_once, len(targets)) / len(targets)
    run = run_libfuzzer if engine == "libfuzzer" else run_mutations

    def one(target):
        result = run(program, target, share, arguments.runs.get(target, 0), arguments)
        print(json.dumps(result), flush=True)
        return result

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(one, targets))


def commit():
    told = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return told.stdout.strip() or None


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=120, help="in all; of targets without --runs")
    parser.add_argument("--engine", choices=["auto", "libfuzzer", "mutations"], default="auto")
    parser.add_argument("--target", action="append", help="only this one; may be given again")
    parser.add_argument("--runs", default="", help="NAME=N,...: so many inputs for these targets, and only these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", type=Path, help="a fuzz program that is built already")
    parser.add_argument("--results", type=Path, help="JSON file for the counts")
    parser.add_argument("--cmake", action="append", default=[], help="an option for CMake, as --cmake=-DNAME=VALUE")
    arguments = parser.parse_args()
    arguments.runs = {name: int(count) for name, count in (one.split("=") for one in arguments.runs.split(",") if one)}
    return arguments


def main():
    arguments = parse_arguments()
    engine = find_engine() if arguments.engine == "auto" else arguments.engine
    program = arguments.program or build(engine, arguments.cmake)
    targets = arguments.target or list(arguments.runs) or list_targets(program)
    start = time.monotonic()
    results = run_all(engine, program, targets, arguments)
    if arguments.results:
        facts = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "commit": commit(),
                 "command": " ".join(["tools/fuzz.py", *sys.argv[1:]]), "engine": engine,
                 "sanitizers": "address,undefined,leak", "seconds": round(time.monotonic() - start), "targets": results}
        arguments.results.write_text(json.dumps(facts, indent=1) + "\n")
    faults = sum(one["crashes"] + one["timeouts"] + one["over_memory"] for one in results)
    print(f"fuzz: {sum(one['executions'] for one in results)} executions of {len(targets)} targets, {faults} faults",
          file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
