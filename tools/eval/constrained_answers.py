#!/usr/bin/env python3
"""Samples answers under generated schemas and checks them by the jsonschema package, formats included.

    constrained_answers.py OCELLUS [--count N] [--first I] [--seed S] [--depth D] [--answers N] [--tokens N]
                           [--models NAME...] [--out FILE [--resume]]

Schemas are those of random_schemas.py. The bundled model and small random pairs of each kind of tokenizer answer a
question without a picture. Answers that end by themselves are to be valid; none may fail, and no schema may be refused.
Additional names may come twice, which the package does not see: those answers are counted. Prints and writes JSON; ends
with 1 if anything is not so. Needs requirements.txt.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import random_schemas
from jsonschema import Draft202012Validator

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "apps"))
from budget_demo import Refused
from results import SOURCE, commit, device_name

FAMILIES = SOURCE / "tests" / "data" / "families"
# Pairs by the names of their tokenizers' kinds; none: the bundled one.
MODELS = {"bundled": None, "gpt2": "qwen3-vl", "llama": "llava-1.5", "gemma4": "gemma4"}
TEMPERATURE = 1.5
LIMIT_S = 120  # of one answer; a program that takes longer has failed
MOST_KEPT = 20  # of cases of a kind that are written out


def repeats_a_name(answer):
    counts = []
    json.loads(answer, object_pairs_hook=lambda pairs: counts.append(len(pairs) - len(dict(pairs))))
    return any(counts)


def fault_of(answer, schema):
    """What is wrong with an answer; None if it is valid."""
    try:
        value = json.loads(answer)
    except ValueError as error:
        return f"no JSON: {error}"
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    error = next(validator.iter_errors(value), None)
    return error and error.message[:500]


def ask_command(arguments, model, *constraint, temperature=TEMPERATURE):
    """`ask` without a picture, sampled on one thread, but for its seed. `model`: a family's folder; None: the bundled pair."""
    command = [arguments.program, "ask", "--prompt", "Say something.", *constraint, "--json", "--quiet", "--device", "cpu",
               "--threads", "1", "--temp", str(temperature), "-n", str(arguments.tokens)]
    if model is not None:
        folder = FAMILIES / model
        command += ["--model", str(folder / "model.gguf"), "--mmproj", str(folder / "mmproj.gguf")]
    return command


class Runner:
    """Answers of one model."""

    def __init__(self, arguments, model, schema_path):
        self.schema_path = schema_path
        self.command = ask_command(arguments, model, "--schema", str(schema_path))
        self.counts = Counter()
        self.cases = []
        self.next = arguments.first

    def take_schema(self, number, schema, answers):
        self.schema_path.write_text(json.dumps(schema, ensure_ascii=False), encoding="utf-8")
        for seed in range(answers):
            outcome, said = self.answer(schema, seed)
            self.counts[outcome] += 1
            if said is not None:
                self.cases.append({"schema": number, "seed": seed, "outcome": outcome, **said})
            if outcome == "refused":
                break
        self.counts["schemas"] += 1
        self.next = number + 1

    def answer(self, schema, seed):
        """How an answer ended, and what there is to say of it."""
        try:
            done = subprocess.run([*self.command, "--seed", str(seed)], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return "failed", {"sentence": f"nothing within {LIMIT_S} s"}
        if done.returncode != 0:
            sentence = " ".join(done.stderr.split())
            return "refused" if done.returncode in (2, 4) else "failed", {"exit": done.returncode, "sentence": sentence}
        answer = json.loads(done.stdout)
        if answer["stop"] == "length":
            return "cut by length", None
        if answer["stop"] != "end":
            return "failed", {"sentence": f"stopped by {answer['stop']}", "answer": answer["answer"]}
        fault = fault_of(answer["answer"], schema)
        if fault is not None:
            return "invalid", {"sentence": fault, "answer": answer["answer"]}
        self.counts["valid with a name twice"] += repeats_a_name(answer["answer"])
        return "valid", None

    def result(self):
        kinds = ["schemas", "valid", "valid with a name twice", "cut by length", "invalid", "failed", "refused"]
        return {**{kind: self.counts[kind] for kind in kinds}, "next": self.next, "cases": self.cases[:MOST_KEPT]}

    def resume(self, earlier):
        self.counts.update({kind: count for kind, count in earlier.items() if isinstance(count, int) and kind != "next"})
        self.cases, self.next = earlier["cases"], earlier["next"]


def check_formats():
    """The package passes by what it has no checker for."""
    missing = set(random_schemas.FORMATS) - set(Draft202012Validator.FORMAT_CHECKER.checkers)
    if missing:
        raise Refused(f"the jsonschema package cannot check {', '.join(sorted(missing))}: install requirements.txt.")


def describe(arguments, command):
    try:
        said = subprocess.run([arguments.program, "devices", "--json"], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Refused(f"{arguments.program} cannot be run: {error}.") from error
    return {"device": device_name(json.loads(said)["devices"], "cpu"), "date": datetime.date.today().isoformat(),
            "commit": commit(), "command": command, "temperature": TEMPERATURE}


def save(path, report):
    beside = path.with_name(path.name + ".part")
    beside.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(beside, path)


def run(arguments, folder):
    command = f"tools/eval/constrained_answers.py OCELLUS --count {arguments.count} --first {arguments.first} --seed " \
              f"{arguments.seed} --depth {arguments.depth} --answers {arguments.answers} --tokens {arguments.tokens}"
    report = {**describe(arguments, command), "models": {}}
    if arguments.out and arguments.out.exists():
        if not arguments.resume:
            raise Refused(f"{arguments.out} is there already: add --resume to go on with it.")
        earlier = json.loads(arguments.out.read_text(encoding="utf-8"))
        if earlier["command"] != report["command"]:
            raise Refused(f"{arguments.out} is of another command: {earlier['command']}.")
        report["models"] = earlier["models"]
    for name in arguments.models:
        runner = Runner(arguments, MODELS[name], folder / "schema.json")
        if name in report["models"]:
            runner.resume(report["models"][name])
        for number in range(runner.next, arguments.first + arguments.count):
            schema = random_schemas.Generator(f"{arguments.seed} {number}", arguments.depth).whole()
            runner.take_schema(number, schema, arguments.answers)
            report["models"][name] = runner.result()
            if arguments.out and number % 10 == 9:
                save(arguments.out, report)
    if arguments.out:
        save(arguments.out, report)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--answers", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    try:
        check_formats()
        with tempfile.TemporaryDirectory() as folder:
            report = run(arguments, Path(folder))
    except Refused as refusal:
        sys.exit(f"constrained_answers.py: {refusal}")
    print(json.dumps(report, indent=1, ensure_ascii=False))
    return any(result[kind] for result in report["models"].values() for kind in ("invalid", "failed", "refused"))


if __name__ == "__main__":
    sys.exit(main())
