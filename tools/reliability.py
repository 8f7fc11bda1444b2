#!/usr/bin/env python3
"""Renews tools/bench/results/reliability.json and tests/RELIABILITY.md: what is promised, how it is tested and what was
seen last, figure by figure.

    tools/reliability.py                     from the result files of tools/bench/results
    tools/reliability.py --run build/release and runs the short commands first, with that build's programs
    tools/reliability.py --check             fails where the page is not what the results make of it

A figure that comes from a command keeps what was seen when it ran last.
"""
import argparse
import dataclasses
import datetime
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from result_tables import with_named_cells

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tools/bench/results"
PAGE = ROOT / "tests/RELIABILITY.md"
NOT_RUN = "not run"
IN_CI = "a test: in every run of CI"


def read(name):
    path = RESULTS / name
    return json.loads(path.read_text(), object_hook=with_named_cells) if path.exists() else None


def seen(text, result, source):
    return {"seen": text, "date": result["date"], "commit": result["commit"], "source": source}


def fuzz_counts():
    texts, newest, sources = [], None, []
    for name in ("fuzz_mutations.json", "fuzz_webp.json", "fuzz_libfuzzer.json"):
        result = read(name)
        if not result:
            continue
        targets = result["targets"]
        faults = sum(one["crashes"] + one["timeouts"] + one["over_memory"] for one in targets)
        runs = ", ".join(f"{one['target']} {one['executions']:,}" for one in targets)
        texts.append(f"{result['engine']}: {sum(one['executions'] for one in targets):,} inputs in "
                     f"{sum(one['seconds'] for one in targets) / 3600:.2f} h, {faults} faults ({runs})")
        newest = max(newest or result, result, key=lambda one: one["date"])
        sources.append(name)
    return seen("; ".join(texts), newest, ", ".join(sources)) if texts else None


def fuzz_worst():
    result = read("fuzz_mutations.json")
    if not result:
        return None
    slowest = max(result["targets"], key=lambda one: one["worst_ms"])
    largest = max(result["targets"], key=lambda one: one["worst_heap_bytes"] or 0)
    return seen(f"slowest input {slowest['worst_ms']:.0f} ms ({slowest['target']}), most heap "
                f"{(largest['worst_heap_bytes'] or 0) / 1e6:.2f} MB ({largest['target']}), under sanitizers",
                result, "fuzz_mutations.json")


def stress(kind, what):
    def find():
        store = read("library_store.json")
        runs = [one for one in store["stress_format_3"] if kind in one["result"]]
        counts = runs[-1]["result"][kind]
        return seen(f"{counts['done']:,} {what}, {counts['wrong']} wrong", {**store, "commit": runs[-1]["commit"]},
                    "library_store.json")
    return find


def soak():
    result = read("watch_soak_cpu.json")
    memory = result["memory"]["rss_bytes"]
    return seen(f"{result['minutes'] / 60:.1f} h, {result['captions']:,} captions, p99 of the last window over the first "
                f"{result['p99_last_over_first']:.3f}, resident {memory['first'] / 1e6:.1f} to {memory['last'] / 1e6:.1f} MB; "
                "a day: not run", result, "watch_soak_cpu.json")


def deadlines():
    result = read("deadline_h100.json")
    late = [f"{one['device'].split(',')[0]}: {one['late']['all']['p50_us']:.0f} / {one['late']['all']['p99_us']:.0f} / "
            f"{one['late']['all']['max_us']:.0f} us" for one in result["runs"]]
    return seen("late by p50 / p99 / most: " + "; ".join(late) + "; Jetson: not run", result, "deadline_h100.json")


def latency():
    result = read("watch_soak_cpu.json")
    window = result["last_window"]
    return seen(f"{window['captions']:,} frames on two idle cores: work {window['work_p50_ms']} / {window['work_p99_ms']} ms, "
                f"age {window['age_p50_ms']} / {window['age_p99_ms']} ms at p50 / p99; 100,000 frames, under load: not run",
                result, "watch_soak_cpu.json")


def no_allocations():
    result = read("watch_soak_cpu.json")
    rolling = read("rolling_h100.json")
    return seen(f"{result['library']['library_allocations']} allocations in {result['library']['library_calls']:,} calls "
                f"of an hour of frames; on a GPU {rolling['host_calls'] + rolling['device_calls']} in "
                f"{rolling['images']:,} pictures", result, "watch_soak_cpu.json, rolling_h100.json")


def sanitizers():
    result = read("sanitizer_h200.json")
    if not result:
        return None
    texts = []
    for tool in dict.fromkeys(one["tool"] for one in result["runs"]):
        runs = [one for one in result["runs"] if one["tool"] == tool]
        texts.append(f"{tool} {sum(one['errors'] for one in runs)} errors")
    in_library = sum(one.get("errors_in_cublaslt", 0) for one in result["runs"])
    cases = {one["program"]: one["cases"] for one in result["runs"] if "cases" in one}
    return seen(f"{result['device'].split(',')[0]}: {', '.join(texts)}, in {sum(cases.values())} cases of "
                f"{' and '.join(cases)} and a caption ({in_library} races reported inside cuBLASLt are not counted)",
                result, "sanitizer_h200.json")


def races():
    result = read("race_stress.json")
    if not result:
        return None
    texts = [f"{one['process']} process: {sum(one['operations'].values()):,} operations, {one['wrong']} wrong"
             for one in result["runs"]]
    wrong = ", those counted as wrong being refusals that are allowed since" if any(one["wrong"] for one in result["runs"]) else ""
    return seen(f"{result['seconds'] / 3600:.2f} h under ThreadSanitizer, {result['reports']} reports; {'; '.join(texts)}{wrong}",
                result, "race_stress.json")


def changing_files():
    result = read("model_change.json")
    runs = [f"{one['moments']:,} moments: {one['answered']:,} answered, {one['refused']:,} refused, {one['killed']} killed, "
            f"{one['wrong']} wrong" for one in result["runs"]]
    return seen("; ".join(runs), result, "model_change.json")


def attack():
    result = read("http_attack.json")
    if not result:
        return None
    texts = []
    for name in ("serve", "watch"):
        honest, memory = result[name]["honest"], result[name]["memory"]
        texts.append(f"{name}: {honest['answers']:,} honest answers, {honest['wrong']} wrong, {honest['late']} late, "
                     f"{result[name]['attacks_accepted']} attacks accepted, memory of the last half over the first "
                     f"{memory['last_over_first']:.3f}")
    remark = f" ({result['remark']})" if "remark" in result else ""
    return seen(f"{result['seconds'] / 3600:.1f} h; " + "; ".join(texts) + remark, result, "http_attack.json")


@dataclasses.dataclass
class Figure:
    name: str
    promise: str
    command: str                 # how it is tested
    find: object = None          # what a result file says
    run: tuple = ()              # a short command: program below the build, arguments
    left: str = ""               # what of the figure is not run


FIGURES = [
    Figure("1 Fuzzing", "No input of any parser crashes, hangs or leaks", "tools/fuzz.py 3600", fuzz_counts,
           left="8 CPU hours for each target: not run"),
    Figure("2 Worst input", "Small inputs take 100 ms at most and no more heap than stated", "tools/fuzz.py 3600", fuzz_worst),
    Figure("3 Known attacks", "Every published attack on GGUF readers and picture decoders gets an error",
           "test_quant -tc='*CVE*'", run=("tests/test_quant", "-tc=*CVE*,*2^63*,*as i32*,*alignment*"), left=IN_CI),
    Figure("4 Input and output that fail", "Any file operation may fail, once or from then on; nothing is lost",
           "test_runtime -sf='*library_fault_test*'", run=("tests/test_runtime", "-sf=*library_fault_test*"),
           left=IN_CI + "; the library's files only"),
    Figure("5 CUDA calls that fail", "Any CUDA call may fail", "none", left="no injection is built; " + NOT_RUN),
    Figure("6 Arena sweep", "Every budget fits or names the bytes that then fit", "test_runtime -tc='*any budget*'",
           run=("tests/test_runtime", "-tc=any budget from*"), left=IN_CI),
    Figure("7 Allocations", "Nothing is allocated, mapped or faulted in after set-up", "test_allocation; tools/bench/camera_soak.py",
           no_allocations),
    Figure("8 Kills", "A process killed at any moment leaves a sound library", "library_stress --kills 10000",
           stress("kills", "kills"), left="loss of power: not run"),
    Figure("9 Flipped bits", "A flipped bit is found or harmless", "library_stress --flips 1000000", stress("flips", "flips")),
    Figure("10 Library against a model", "Owners see their own live entries and no others",
           "library_stress --operations 1000000", stress("operations", "operations"), left="10,000,000: not run"),
    Figure("11 Soak", "Hours of camera change neither memory nor times", "tools/bench/camera_soak.py", soak),
    Figure("12 Sanitizers", "No report of any sanitizer", "tools/test.sh (AddressSanitizer, UndefinedBehaviorSanitizer); "
           "tools/gpu_check.sh (compute-sanitizer: memcheck, racecheck, initcheck, synccheck)", sanitizers,
           left="address and undefined: every run of CI; thread: see Races; memory: " + NOT_RUN),
    Figure("Races", "Any number of engines, and threads that stop them, work in one process and share a library",
           "cmake --preset tsan; race_stress --seconds 3600", races,
           left="3 s without ThreadSanitizer: every run of CI"),
    Figure("13 Deadlines", "A call returns soon after its deadline or a cancel", "deadline_bench MODEL MMPROJ cuda 1000",
           deadlines),
    Figure("14 Latency", "The slowest frames are stated", "tools/bench/camera_soak.py", latency),
    Figure("15 Determinism", "The same input gives the same bits: again, restarted, from a library, in slices",
           "test_runtime -sf='*golden*,*answer_slices*,*link_library*'; tests/apps/restart_test.py",
           run=("tests/test_runtime", "-sf=*answer_slices_test*,*link_library_test*"), left=IN_CI),
    Figure("16 Symbols", "The library calls nothing that throws, aborts, prints or exits", "tools/check_symbols.py build/release",
           run=("symbols",), left=IN_CI),
    Figure("17 Coverage", "Every branch of parsers and store is tested", "none", left="branch coverage, mutation score: " + NOT_RUN),
    Figure("Changing model files", "A model file that changes at any moment ends in a sentence",
           "model_stress 10000 1", changing_files),
    Figure("Attack over HTTP", "Honest clients are served beside attackers", "tools/bench/http_attack.py", attack),
]


def commit():
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def run_command(build, run):
    """What a short command says; None where it cannot be run or fails."""
    if run[0] == "symbols":
        command = [sys.executable, str(ROOT / "tools/check_symbols.py"), str(build)]
    else:
        command = [str(build / run[0]), *run[1:], "--no-colors"]
    if not Path(command[0]).exists():
        return None
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    output = done.stdout + done.stderr
    counts = re.search(r"test cases:\s+(\d+).*?(\d+) passed[^\n]*\n[^\n]*assertions:\s+(\d+)", output)
    if done.returncode != 0 or (counts and int(counts[1]) == 0):
        print(f"{' '.join(command)} failed:\n{output[-2000:]}", file=sys.stderr)
        return None
    text = f"{counts[1]} cases, {int(counts[3]):,} checks, all right" if counts else output.strip().splitlines()[-1].split(": ", 1)[-1]
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    return {"seen": text, "date": today, "commit": commit(), "source": "the command"}


def renew(build):
    before = {one["figure"]: one for one in (read("reliability.json") or {"figures": []})["figures"]}
    figures = []
    for figure in FIGURES:
        what = figure.find() if figure.find else None
        if figure.run:
            what = run_command(build, figure.run) if build else None
            old = before.get(figure.name, {})
            if not what and old.get("date"):
                what = {key: old[key] for key in ("seen", "date", "commit", "source")}
        figures.append({"figure": figure.name, "promise": figure.promise, "command": figure.command,
                        "seen": NOT_RUN, "date": None, "commit": None, "source": None, **(what or {}),
                        "left": figure.left})
    return {"what": "the reliability figures, as tests/RELIABILITY.md shows them",
            "commit": "by figure, each from its own run", "command": "tools/reliability.py --run build/release",
            "figures": figures}


def page(results):
    lines = ["# Reliability", "", "What is promised, how it is tested, and what was seen last, with date and commit. "
             "`tools/reliability.py` makes this page", "from the files in `tools/bench/results/`, and runs the short "
             "commands again with `--run build/release`. Times on a GPU, on Jetson", "and over a day are only told where "
             "they were measured. No promise of hard real time follows from any of it.", "",
             "| figure | promise | command | seen last | when |", "|---|---|---|---|---|"]
    for one in results["figures"]:
        what = ". ".join(text for text in (one["seen"] if one["date"] or not one["left"] else "", one["left"]) if text)
        when = f"{one['date']}, `{one['commit']}`" if one["date"] else ""
        lines.append(f"| {one['figure']} | {one['promise']} | `{one['command']}` | {what} | {when} |")
    return "\n".join(lines) + "\n"


def by_figure(results):
    """JSON with a line for each figure."""
    pack = functools.partial(json.dumps, separators=(",", ":"), ensure_ascii=False)
    head = "".join(f' {pack(name)}:{pack(value)},\n' for name, value in results.items() if name != "figures")
    return "{\n" + head + ' "figures":[\n  ' + ",\n  ".join(map(pack, results["figures"])) + "\n ]\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, metavar="BUILD")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    results = renew(arguments.run and arguments.run.resolve())
    if arguments.check:
        fresh = PAGE.exists() and PAGE.read_text() == page(results)
        print("reliability: the page is up to date" if fresh else "reliability: run tools/reliability.py", file=sys.stderr)
        return 0 if fresh else 1
    (RESULTS / "reliability.json").write_text(by_figure(results))
    PAGE.write_text(page(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
