#!/usr/bin/env python3
"""Compiles the schemas of tests/data/schemas/clients.jsonl and checks sampled answers by jsonschema and by the models.

    client_schemas.py OCELLUS [--seeds N] [--tokens N] [--out FILE]

The schemas are those that client_models.py (pydantic) and client_models.mjs (zod) write. The bundled model answers at
temperature 1 without a picture. Counts the schemas that compile, names the others with their sentence, and checks each
answer that ends by itself: by the jsonschema package with formats, and those of pydantic by the model itself. Prints and
writes JSON; ends with 1 if an answer is not valid by jsonschema. Needs client_schemas_requirements.txt.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import client_models
from constrained_answers import ask_command, check_formats, describe, fault_of, save
from pydantic import TypeAdapter, ValidationError
from results import SOURCE

FIXTURES = SOURCE / "tests" / "data" / "schemas" / "clients.jsonl"
TEMPERATURE = 1.0
LIMIT_S = 120
MOST_KEPT = 20


def fault_of_model(name, answer):
    """What a model of pydantic says against an answer; None if it takes it."""
    writer, _, model = name.partition("/")
    if writer != "pydantic":
        return None
    try:
        TypeAdapter(client_models.MODELS[model]).validate_json(answer)
    except ValidationError as error:
        return str(error.errors(include_url=False, include_context=False, include_input=False)[0])[:300]
    return None


class Tally:
    def __init__(self):
        self.counts = dict.fromkeys(["schemas", "compiled", "finished", "cut by length", "failed", "invalid",
                                     "refused by the model"], 0)
        self.refused, self.cases = {}, []

    def note(self, kind, case):
        self.counts[kind] += 1
        if len(self.cases) < MOST_KEPT:
            self.cases.append({"outcome": kind, **case})

    def take(self, arguments, path, entry):
        path.write_text(json.dumps(entry["schema"], ensure_ascii=False), encoding="utf-8")
        command = ask_command(arguments, None, "--schema", str(path), temperature=TEMPERATURE)
        self.counts["schemas"] += 1
        for seed in range(arguments.seeds):
            done = subprocess.run([*command, "--seed", str(seed)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=LIMIT_S, check=False)
            if done.returncode in (2, 4):
                self.refused[entry["name"]] = " ".join(done.stderr.split()).partition("schema.json: ")[2]
                return
            self.counts["compiled"] += seed == 0
            self.check(entry, seed, done)

    def check(self, entry, seed, done):
        case = {"name": entry["name"], "seed": seed}
        if done.returncode != 0:
            return self.note("failed", {**case, "sentence": " ".join(done.stderr.split())})
        answer = json.loads(done.stdout)
        if answer["stop"] != "end":
            self.counts["cut by length"] += 1
            return None
        self.counts["finished"] += 1
        fault = fault_of(answer["answer"], entry["schema"])
        if fault:
            return self.note("invalid", {**case, "sentence": fault, "answer": answer["answer"]})
        fault = fault_of_model(entry["name"], answer["answer"])
        return self.note("refused by the model", {**case, "sentence": fault, "answer": answer["answer"]}) if fault else None

    def result(self):
        return {**self.counts, "not compiled": self.refused, "cases": self.cases}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    check_formats()
    command = f"tools/eval/client_schemas.py OCELLUS --seeds {arguments.seeds} --tokens {arguments.tokens}"
    report = {**describe(arguments, command), "temperature": TEMPERATURE}
    tallies = {}
    with tempfile.TemporaryDirectory() as folder:
        for line in FIXTURES.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            tally = tallies.setdefault(entry["name"].partition("/")[0], Tally())
            tally.take(arguments, Path(folder) / "schema.json", entry)
            report["writers"] = {writer: tally.result() for writer, tally in tallies.items()}
            if arguments.out:
                save(arguments.out, report)
    print(json.dumps(report, indent=1, ensure_ascii=False))
    return any(tally.counts["invalid"] or tally.counts["failed"] for tally in tallies.values())


if __name__ == "__main__":
    sys.exit(main())
