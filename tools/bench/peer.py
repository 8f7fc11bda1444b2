#!/usr/bin/env python3
"""Runs llama.cpp and this program in turn on the same random files and writes one result file. peer.sh calls it.

A round is a run of each; a run is a process that warms up first. Figures are medians over rounds of a run's median; a
ratio above 1 says that this program is faster. The floor: the bytes that a step must read (weights and cache) over the
rate at which as many threads read memory, measured in the same rounds, or over a GPU's copy rate. On a busy machine
llama.cpp's threads, which spin, lose the most: ratios are of use only from an idle one (or try chrt -f 50 peer.sh ...).
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULTS = {
    "cpu": {"shapes": ["SmolVLM-256M", "SmolVLM2-2.2B"], "encode": ["Q8_0"], "samples": 1,
            "formats": ["Q4_K", "Q5_K", "Q6_K", "Q4_0", "IQ4_NL", "Q8_0", "F16"]},
    # The first prompt that llama-bench times on a GPU is slow in spite of its warm-up; the median of three is not.
    "cuda": {"shapes": ["SmolVLM2-2.2B", "InternVL2.5-8B"], "encode": ["F16", "Q8_0"], "samples": 3,
             "formats": ["F16", "Q8_0", "Q4_K", "Q6_K"]},
}


def run(*command):
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        last = " | ".join(done.stderr.strip().splitlines()[-3:])
        raise RuntimeError(f"{shlex.join(command)} ended with {done.returncode}: {last}")
    return done


def find(pattern, text):
    found = re.findall(pattern, text)
    if not found:
        raise RuntimeError(f"the output holds no {pattern}")
    return found


class Programs:
    """Both programs on one pair of files. Each method returns the figures of both, by the names of `ocellus bench`."""

    def __init__(self, arguments, pair):
        self.arguments, self.pair, self.facts = arguments, pair, {}
        self.on_cpu = arguments.device == "cpu"

    def ocellus(self, *options):
        threads = ["--threads", self.arguments.threads] if self.on_cpu else []
        self.facts |= json.loads(run(self.arguments.ocellus, "bench", "-m", self.pair["model"], "--mmproj",
                                     self.pair["mmproj"], "--device", self.arguments.device, "--quiet", "--json", "-r",
                                     self.arguments.samples, *threads, *options).stdout)
        return {row["test"]: statistics.median(row["samples"]) for row in self.facts["rows"]}

    def peer(self, name, *options):
        where = ["-t", self.arguments.threads] if self.on_cpu else ["-ngl", 99]
        program = self.arguments.folder / f"build-{self.arguments.device}/bin" / name
        return run(program, "-m", self.pair["model"], *where, *options, *shlex.split(self.arguments.peer_options))

    def text(self, prompt, tokens, depth=0):
        options = ["-p", prompt, "-n", tokens, "-d"]
        theirs = {}
        ours = self.ocellus(*options, depth, "--images", 0)
        for row in json.loads(self.peer("llama-bench", *options, f"0,{depth}" if depth else 0, "-r",
                                        self.arguments.samples, "-o", "json").stdout):
            name = f"pp{row['n_prompt']}" if row["n_prompt"] else f"tg{row['n_gen']}"
            name += f" @ d{row['n_depth']}" if row["n_depth"] else ""
            theirs[name] = statistics.median(row["samples_ts"])
            self.facts["peer"] = row["build_commit"]
        return ours, theirs

    def read_rate(self):
        """GB/s."""
        plan = run(self.arguments.ocellus, "plan", "--machine", "this", "-m", self.pair["model"], "--threads",
                   self.arguments.threads, "--images", 0, "--json", "--quiet")
        return json.loads(plan.stdout)["machine"]["bytes_per_s"] * 1e-9

    def batch(self, sessions, tokens):
        ours = self.ocellus("-p", 0, "-n", tokens, "-b", sessions, "--images", 0)
        output = self.peer("llama-batched-bench", "-npp", 1, "-ntg", tokens, "-npl", sessions, "-c",
                           sessions * (tokens + 1), "--output-format", "jsonl").stdout
        return ours, {f"tg{tokens} b{sessions}": float(find(r'"speed_tg": ([\d.]+)', output)[0])}

    def encode(self, picture):
        """Both leave out the first picture of a process, and reading and resizing all."""
        samples = self.arguments.samples
        ours = self.ocellus("-p", 0, "-n", 0, "--images", 1)  # its own frames of the same size
        done = self.peer("llama-mtmd-cli", "--mmproj", self.pair["mmproj"], "--image",
                         ",".join([str(picture)] * (samples + 1)), "-p", "Describe.", "-n", 1, "--temp", 0, "-c", 16384,
                         "--chat-template", "chatml", "--no-jinja")
        times = [int(ms) for ms in find(r"encoding done in (\d+) ms", done.stdout + done.stderr)]
        views = len(times) // (samples + 1)  # the views of a picture, one by one
        return ours, {"image encode": sum(times[views:]) / samples}


def measure(arguments, shape, weight_format, pair, picture):
    """Rows of the result file."""
    both = Programs(arguments, pair)
    rounds, shares, rates = collections.defaultdict(list), collections.defaultdict(list), []
    both.text(32, 4)  # brings the files into memory
    for _ in range(arguments.rounds):
        runs = [both.text(prompt, 0 if i else arguments.tokens, 0 if i else arguments.depth)
                for i, prompt in enumerate(arguments.prompts)]
        runs += [both.batch(sessions, arguments.tokens) for sessions in arguments.batch]
        if weight_format in arguments.encode:
            runs.append(both.encode(picture))
        if both.on_cpu:
            rates.append(both.read_rate())
        for ours, theirs in runs:
            for test, value in theirs.items():
                rounds[test].append([six(ours[test]), six(value)])
                if f"{test} reads" in ours:
                    shares[test].append(100 * ours[f"{test} reads"] / (rates[-1] if rates else ours["copy rate"]))
    rows = []
    for test, pairs in rounds.items():
        ours, theirs = (statistics.median(values) for values in zip(*pairs))
        ratio = theirs / ours if test == "image encode" else ours / theirs
        row = {"shape": shape, "format": weight_format, "test": test, "ocellus": ours, "llama.cpp": theirs,
               "ratio": six(ratio)}
        if both.facts["weights"] != weight_format:
            row["most_weights"] = both.facts["weights"]
        if test in shares:
            share = statistics.median(shares[test])
            row |= {"floor_percent": [six(share), six(share / ratio)]}
            row |= {"read_gb_s": six(statistics.median(rates))} if rates else {}
        rows.append(row | {"rounds": pairs})
    arguments.facts = both.facts
    return rows


def six(value):
    return float(f"{value:.6g}")


def show(rows):
    if most := rows[0].get("most_weights"):
        print(f"{rows[0]['shape']}: {rows[0]['format']} does not fit most of its weights, which are {most}.")
    for row in rows:
        floor = " ".join(f"{share:7.1f}" for share in row.get("floor_percent", []))
        print(f"{row['shape']:14} {row['format']:7} {row['test']:16} {row['ocellus']:9.5g} {row['llama.cpp']:9.5g} "
              f"{row['ratio']:6.2f} {floor}", flush=True)


def write(arguments, rows):
    threads, cuda = (f", {arguments.threads} threads", []) if arguments.device == "cpu" else ("", ["--cuda"])
    heading = {"device": arguments.facts["device"] + threads, "load_before": arguments.load,
               "date": datetime.date.today().isoformat(),
               "commit": arguments.commit or run("git", "-C", ROOT, "rev-parse", "HEAD").stdout.strip(),
               "peer": arguments.facts["peer"], "command": shlex.join(["tools/bench/peer.sh", *cuda, *sys.argv[3:]]),
               "units": "tokens/s, ms to encode; rounds and floor: ocellus, llama.cpp"}
    lines = ",\n  ".join(json.dumps(row, separators=(",", ":")) for row in rows)
    arguments.out.write_text(json.dumps(heading, indent=1)[:-2] + f',\n "rows": [\n  {lines}\n ]\n}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, usage="peer.sh ...",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("device", choices=DEFAULTS, help=argparse.SUPPRESS)
    parser.add_argument("--ocellus", default=ROOT / "build/release/apps/ocellus")
    parser.add_argument("--shapes", nargs="+")
    parser.add_argument("--formats", nargs="+")
    parser.add_argument("--prompts", type=int, nargs="+", default=[512])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--depth", type=int, default=0, help="measure also with as many tokens in the cache")
    parser.add_argument("--batch", type=int, nargs="+", default=[], help="sessions that decode together, as 4 16")
    parser.add_argument("--encode", nargs="*", help="formats for which a picture of 640 x 480 is encoded")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int)
    parser.add_argument("--peer-options", default="", help="for llama.cpp's programs, as '-fa on'")
    parser.add_argument("--commit", help="of the binary; default: this checkout's")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    for name, value in DEFAULTS[arguments.device].items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    arguments.load, rows, failures = os.getloadavg()[0], [], 0
    print(f"{'shape':14} {'format':7} {'test':16} {'ocellus':>9} {'llama.cpp':>9} {'ratio':>6} % of the floor")
    for shape in arguments.shapes:
        for weight_format in arguments.formats:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
                picture = pathlib.Path(made, "picture.ppm")
                picture.write_bytes(b"P6 640 480 255\n" + bytes(range(256)) * 3600)
                try:
                    pair = json.loads(run(arguments.ocellus, "make-model", "--shape", shape, "--format", weight_format,
                                          "--output", made, "--json", "--quiet").stdout)
                    new = measure(arguments, shape, weight_format, pair, picture)
                except RuntimeError as failure:
                    failures += 1
                    print(f"{shape} {weight_format}: {failure}", flush=True)
                    continue
            show(new)
            rows += new
            if arguments.out:
                write(arguments, rows)
    raise SystemExit(failures > 0)


if __name__ == "__main__":
    main()
