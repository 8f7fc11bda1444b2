#!/usr/bin/env python3
"""Renews tools/bench/results/reliability.json and tests/RELIABILITY.md: what is promised, how it is tested and what was
seen last, figure by figure.

    tools/reliability.py                     from the result files of tools/bench/results
    tools/reliability.py --run build/release and runs the short commands first, with that build's programs
    tools/reliability.py --check             fails where the page is not what the results make of it, and where a figure has
                                             no command or is older than 300 commits and no exception says why
    tools/reliability.py --self-test         plants one fault of each kind

A figure that comes from a command keeps what was seen when it ran last. An exception lasts 300 commits, too.
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
NO_COMMAND = "none"
MOST_COMMITS = 300
HOLDS, IN_PART, NOT_MEASURED = "holds", "holds, with an exception", "not measured"


def read(name):
    path = RESULTS / name
    return json.loads(path.read_text(), object_hook=with_named_cells) if path.exists() else None


def seen(text, result, source, exception=""):
    """`exception`: what of the promise was not so."""
    return {"seen": text, "date": result["date"], "commit": result["commit"], "source": source, "exception": exception}


def fuzz_runs():
    """The counts of every run on file, the latest last."""
    runs = []
    for name in ("fuzz_mutations.json", "fuzz_webp.json", "fuzz_libfuzzer.json"):
        result = read(name)
        if result:
            runs += [{**result, "file": name}, *({**one, "file": name} for one in result.get("later", []))]
    return sorted(runs, key=lambda one: one["date"])


def fuzz_counts():
    texts, runs = [], fuzz_runs()
    count = lambda run: sum(target["executions"] for target in run["targets"])
    longest = max(runs, key=count)
    for one in runs:
        targets = one["targets"]
        faults = sum(target["crashes"] + target["timeouts"] + target["over_memory"] for target in targets)
        by_target = ", ".join(f"{target['target']} {target['executions']:,}" for target in targets)
        texts.append(f"{one['date']}, {one['engine']}: {count(one):,} inputs in "
                     f"{sum(target['seconds'] for target in targets) / 3600:.2f} h, {faults} faults ({by_target})")
    return seen("; ".join(texts), runs[-1], ", ".join(sorted({one["file"] for one in runs})),
                "" if longest is runs[-1] else f"the longest run is of an older build, `{longest['commit']}`")


def fuzz_worst():
    newest = fuzz_runs()[-1]
    slowest = max(newest["targets"], key=lambda one: one["worst_ms"])
    largest = max(newest["targets"], key=lambda one: one["worst_heap_bytes"] or 0)
    return seen(f"slowest input {slowest['worst_ms']:,.0f} ms in {slowest['target']}, most heap "
                f"{(largest['worst_heap_bytes'] or 0) / 1e6:.2f} MB in {largest['target']}, under sanitizers, on {newest['device']}",
                newest, newest["file"], f"{slowest['target']} took more than 100 ms under sanitizers; without them it was not "
                "measured" if slowest["worst_ms"] > 100 else "")


def stress(kind, what):
    def find():
        store = read("library_store.json")
        runs = [one for one in store["stress_format_3"] if kind in one["result"]]
        counts = runs[-1]["result"][kind]
        return seen(f"{counts['done']:,} {what}, {counts['wrong']} wrong (the same run at `{runs[0]['commit']}`: "
                    f"{runs[0]['result'][kind]['wrong']} wrong)", {**store, **runs[-1]}, "library_store.json")
    return find


def soak():
    hour = read("watch_soak_cpu.json")
    newest = hour["later"][-1]
    memory = newest["memory"]["rss_bytes"]
    return seen(f"{newest['minutes']:.0f} minutes, {newest['captions']:,} captions, resident {memory['first'] / 1e6:.1f} to "
                f"{memory['last'] / 1e6:.1f} MB, no times as other work ran beside it; on a quiet machine at `{hour['commit']}` "
                f"{hour['minutes'] / 60:.1f} h, {hour['captions']:,} captions, p99 of the last window over the first "
                f"{hour['p99_last_over_first']:.3f}; a day: not run", newest, "watch_soak_cpu.json",
                "memory held, over minutes; times were last compared in that hour" if newest["minutes"] < 60 else "")


def late(kind):
    """How late calls return on the kind of device, "cpu" or "cuda", in the latest run there."""
    def find():
        result = read("deadline_h100.json")
        run = [one for one in result["runs"] if f"MMPROJ {kind}" in one["command"]][-1]
        return seen(f"{run['device'].replace('(R)', '')}: {run['frames']:,} frames, late by {run['late']['all']['p50_us']:.0f} us at p50, "
                    f"{run['late']['all']['p99_us']:,.0f} at p99, {run['late']['all']['max_us']:,.0f} at most",
                    {**result, **run}, "deadline_h100.json")
    return find


def latency():
    result = read("watch_soak_cpu.json")
    window = result["last_window"]
    return seen(f"{window['captions']:,} frames on two idle cores: work {window['work_p50_ms']} / {window['work_p99_ms']} ms, "
                f"age {window['age_p50_ms']} / {window['age_p99_ms']} ms at p50 / p99; 100,000 frames, under load: not run",
                result, "watch_soak_cpu.json")


def no_allocations():
    hour = read("watch_soak_cpu.json")
    newest = hour["later"][-1]
    return seen(f"{newest['library']['library_allocations']} allocations in {newest['library']['library_calls']:,} calls of "
                f"{newest['minutes']:.0f} minutes of frames; {hour['library']['library_allocations']} in "
                f"{hour['library']['library_calls']:,} of an hour at `{hour['commit']}`", newest, "watch_soak_cpu.json")


def no_allocations_on_a_gpu():
    rolling = read("rolling_h200.json")
    return seen(f"{rolling['device']}: {rolling['host_calls'] + rolling['device_calls']} in {rolling['images']:,} pictures",
                rolling, "rolling_h200.json")


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
    return seen("; ".join(runs), {**result, **result["runs"][-1]}, "model_change.json")


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
    remark = f"; {result['remark']}" if "remark" in result else ""
    return seen(f"{result['seconds'] / 3600:.1f} h; " + "; ".join(texts) + remark, result, "http_attack.json")


@dataclasses.dataclass
class Figure:
    name: str
    promise: str
    command: str                 # how it is tested
    find: object = None          # what a result file says
    run: tuple = ()              # a short command: program below the build, arguments
    left: str = ""               # what of the figure is not run


@dataclasses.dataclass
class Excuse:
    """Why a figure has no command or is old. It ends MOST_COMMITS after `commit`, so that it is looked at again."""
    state: str
    reason: str
    date: str
    commit: str


FIGURES = [
    Figure("1 Fuzzing", "No input of any parser crashes, hangs or leaks", "tools/fuzz.py 3600", fuzz_counts,
           left="8 CPU hours for each target: not run"),
    Figure("2 Worst input", "Small inputs take 100 ms at most and no more heap than stated", "tools/fuzz.py 3600", fuzz_worst),
    Figure("3 Known attacks", "Every published attack on GGUF readers and picture decoders gets an error",
           "test_quant -tc='*CVE*'", run=("tests/test_quant", "-tc=*CVE*,*2^63*,*as i32*,*alignment*"), left=IN_CI),
    Figure("4 Input and output that fail", "Any file operation may fail, once or from then on; nothing is lost",
           "test_runtime -sf='*library_fault_test*'", run=("tests/test_runtime", "-sf=*library_fault_test*"),
           left=IN_CI + "; the library's files only"),
    Figure("5 CUDA calls that fail", "Any CUDA call may fail", NO_COMMAND),
    Figure("6 Arena sweep", "Every budget fits or names the bytes that then fit", "test_runtime -tc='*any budget*'",
           run=("tests/test_runtime", "-tc=any budget from*"), left=IN_CI),
    Figure("7 Allocations", "Nothing is allocated, mapped or faulted in after set-up", "test_allocation; tools/bench/camera_soak.py",
           no_allocations),
    Figure("7 Allocations, GPU", "Nor is device memory, nor heap by the driver",
           "OCELLUS_TEST_ROLLING_IMAGES=2000 test_allocation -tc='*picture after picture*'", no_allocations_on_a_gpu),
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
    Figure("13 Deadlines", "A call returns soon after its deadline or a cancel", "deadline_bench MODEL MMPROJ cpu 250",
           late("cpu"), left="Jetson: not run"),
    Figure("13 Deadlines, GPU", "So it does on a GPU", "deadline_bench MODEL MMPROJ cuda 1000", late("cuda")),
    Figure("14 Latency", "The slowest frames are stated", "tools/bench/camera_soak.py", latency),
    Figure("15 Determinism", "The same input gives the same bits: again, restarted, from a library, in slices",
           "test_runtime -sf='*golden*,*answer_slices*,*link_library*'; tests/apps/restart_test.py",
           run=("tests/test_runtime", "-sf=*answer_slices_test*,*link_library_test*"), left=IN_CI),
    Figure("16 Symbols", "The library calls nothing that throws, aborts, prints or exits", "tools/check_symbols.py build/release",
           run=("symbols",), left=IN_CI),
    Figure("17 Coverage", "Every branch of parsers and store is tested", NO_COMMAND),
    Figure("Changing model files", "A model file that changes at any moment ends in a sentence",
           "model_stress 10000 1", changing_files),
    Figure("Attack over HTTP", "Honest clients are served beside attackers", "tools/bench/http_attack.py", attack),
]


# Why a figure has no command, or was measured more than MOST_COMMITS ago. One that is not needed is a fault.
EXCUSES = {
    "5 CUDA calls that fail": Excuse(NOT_MEASURED, "nothing makes CUDA's calls fail yet", "2026-11-29", "76b7f4e1"),
    "14 Latency": Excuse(IN_PART, "of an older build: it takes an hour of two idle cores, which other builds had",
                         "2026-11-29", "76b7f4e1"),
    "Attack over HTTP": Excuse(IN_PART, "of an older build: it takes an hour of two idle cores, which other builds had",
                               "2026-11-30", "44a63974"),
    "17 Coverage": Excuse(NOT_MEASURED, "no build counts branches yet, and nothing changes the code to see tests fail",
                          "2026-11-29", "76b7f4e1"),
}


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


def git(*arguments):
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def age_of(commit_name):
    """Commits of the history since then; None where that commit is not in it."""
    count = git("rev-list", "--count", f"{commit_name}..HEAD")
    return int(count) if count is not None and git("merge-base", "--is-ancestor", commit_name, "HEAD") is not None else None


def state_of(figure):
    """(state, why it is not simply so) of a figure as reliability.json has it."""
    excuse = EXCUSES.get(figure["figure"])
    if excuse:
        return excuse.state, f"{excuse.reason} (said on {excuse.date})"
    if figure.get("exception"):
        return IN_PART, figure["exception"]
    return (HOLDS if figure["date"] or figure["left"].startswith(IN_CI) else NOT_MEASURED), ""


def find_old(figures, excuses, age):
    """Sentences about figures without a command or of another time, and about excuses. `age`: see age_of."""
    faults = []
    for one in figures:
        name, excuse = one["figure"], excuses.get(one["figure"])
        why = ""
        if one["command"] == NO_COMMAND:
            why = "has no command"
        elif one["commit"] and age(one["commit"]) is None:
            why = f"is of {one['commit']}, which is not in the history"
        elif one["commit"] and age(one["commit"]) > MOST_COMMITS:
            why = f"is {age(one['commit'])} commits old, more than {MOST_COMMITS}"
        if why and not excuse:
            faults.append(f"{name} {why}: run its command, or say in EXCUSES why not")
        elif excuse and not why:
            faults.append(f"{name} needs no excuse any more: take it out of EXCUSES")
        elif excuse and (age(excuse.commit) is None or age(excuse.commit) > MOST_COMMITS):
            faults.append(f"{name} {why}, and its excuse is of {excuse.date}: run it, or look at the excuse again")
    named = {one["figure"] for one in figures}
    return faults + [f"EXCUSES names {name}, which is no figure" for name in excuses if name not in named]


def page(results):
    lines = ["# Reliability", "", "What is promised, the command that checks it, and its state, with the commit that was measured. "
             "`tools/reliability.py` makes this", "page from the files in `tools/bench/results/`, and runs the short commands "
             "again with `--run build/release`. `--check` fails where", f"a figure has no command or is older than {MOST_COMMITS} "
             "commits, unless its exception says why. Times on a GPU, on Jetson and over a", "day are only told where they were "
             "measured. No promise of hard real time follows from any of it.", "", "| promise | command | state |", "|---|---|---|"]
    for one in results["figures"]:
        when = f", `{one['commit']}`" if one["commit"] else ", every run of CI" if one["left"].startswith(IN_CI) else ""
        lines.append(f"| {one['figure']}: {one['promise']} | `{one['command']}` | {state_of(one)[0]}{when} |")
    for one in results["figures"]:
        why = state_of(one)[1]
        what = ". ".join(text[0].upper() + text[1:] for part in (one["seen"] if one["date"] or not one["left"] else "", one["left"])
                         for text in part.split("; ") if text)
        when = f" {one['date']}, `{one['commit']}`{', ' + one['source'] if one['source'] else ''}." if one["date"] else ""
        lines += ["", f"**{one['figure']}.** {what}.{when}" + (f" Exception: {why}." if why else "")]
    return "\n".join(lines) + "\n"


def by_figure(results):
    """JSON with a line for each figure."""
    pack = functools.partial(json.dumps, separators=(",", ":"), ensure_ascii=False)
    head = "".join(f' {pack(name)}:{pack(value)},\n' for name, value in results.items() if name != "figures")
    return "{\n" + head + ' "figures":[\n  ' + ",\n  ".join(map(pack, results["figures"])) + "\n ]\n}\n"


def check(results):
    faults = [] if PAGE.exists() and PAGE.read_text() == page(results) else ["the page is not what the results make of it: run "
                                                                             "tools/reliability.py"]
    if git("rev-parse", "--is-shallow-repository") != "false":
        print("reliability: there is no whole history here, so ages are not checked", file=sys.stderr)
    else:
        faults += find_old(results["figures"], EXCUSES, age_of)
    for fault in faults:
        print(f"reliability: {fault}", file=sys.stderr)
    return 1 if faults else 0


def self_test():
    figures = [{"figure": name, "command": command, "commit": at}
               for name, command, at in (("new", "run", "a"), ("old", "run", "b"), ("lost", "run", "c"), ("none", NO_COMMAND, None),
                                         ("excused", NO_COMMAND, None), ("overdue", "run", "b"), ("mended", "run", "a"))]
    excuses = {name: Excuse(NOT_MEASURED, "", "", at)
               for name, at in (("excused", "a"), ("overdue", "b"), ("mended", "a"), ("gone", "a"))}
    faults = find_old(figures, excuses, {"a": MOST_COMMITS, "b": MOST_COMMITS + 1}.get)
    assert [fault.split()[0] for fault in faults] == ["old", "lost", "none", "overdue", "mended", "EXCUSES"], faults
    assert age_of("0" * 40) is None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, metavar="BUILD")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    results = renew(arguments.run and arguments.run.resolve())
    if arguments.check:
        return check(results)
    (RESULTS / "reliability.json").write_text(by_figure(results))
    PAGE.write_text(page(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
