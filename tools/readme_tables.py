#!/usr/bin/env python3
"""Writes the README's tables of measurements from the result files in tools/bench/results.

    tools/readme_tables.py              rewrites every table between its markers
    tools/readme_tables.py --check      fails with the first table that differs, result file without commit or command, or
                                        result file that the README names and that is not there
    tools/readme_tables.py --self-test  plants one fault of each kind

A table NAME stands between the lines <!-- table: NAME --> and <!-- end of table -->; TABLES in readme_cells.py says which
function makes it.
A figure of the README that is in no result file has no place in a table.
"""
import json
import re
import sys
import tempfile
from pathlib import Path

from readme_cells import TABLES, table, three_digits

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- table: {} -->\n", "<!-- end of table -->\n"
MARKED = re.compile(r"<!-- table: ([^\n]+) -->\n(.*?)<!-- end of table -->\n", re.DOTALL)
RESULT_NAME = re.compile(r"`([a-z0-9_]+\.json)`")
MENDING = "run tools/readme_tables.py"
NOT_RECORDED = "not recorded"


class Fault(Exception):
    """A sentence that says what is wrong and how to mend it."""


def with_named_cells(value):
    """Long lists of cells name their columns once: {"columns": [...], "rows": [[...]]}, null where a cell has none."""
    if value.keys() != {"columns", "rows"}:
        return value
    return [{name: cell for name, cell in zip(value["columns"], row) if cell is not None} for row in value["rows"]]


class Results:
    """The result files of a folder, by name without .json, each read once."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}

    def __getitem__(self, name):
        if name not in self.files:
            try:
                text = (self.folder / f"{name}.json").read_text(encoding="utf-8")
                self.files[name] = json.loads(text, object_hook=with_named_cells)
            except (OSError, ValueError) as error:
                raise Fault(f"tools/bench/results/{name}.json cannot be read: {error}") from error
        return self.files[name]


def written(text, results, tables):
    """The README with its tables as the result files have them; throws Fault."""
    names = [name for name, _ in MARKED.findall(text)]
    for name in [*tables, *names]:
        if names.count(name) != 1 or name not in tables:
            raise Fault(f"README.md has {names.count(name)} tables that are marked {name!r}, and this script makes "
                        f"{int(name in tables)}: mark one with {BEGIN.format(name).strip()} and {END.strip()}.")

    def rows_of(name):
        try:
            return tables[name](results)
        except (LookupError, RuntimeError) as error:  # a generator that finds no cell ends in a RuntimeError
            raise Fault(f"table {name!r}: a result file has not got what it shows ({error!r}): add the result, or take "
                        "the cell out of tools/readme_cells.py.") from error

    return MARKED.sub(lambda found: BEGIN.format(found[1]) + rows_of(found[1]) + END, text)


def check(root, tables):
    """Throws the first Fault of README.md and the result files under `root`."""
    text, folder = (root / "README.md").read_text(encoding="utf-8"), root / "tools/bench/results"
    results = Results(folder)
    for path in sorted(folder.glob("*.json")):
        for key in ("commit", "command"):
            if not results[path.stem].get(key):
                raise Fault(f"tools/bench/results/{path.name} names no {key}: add it, or {NOT_RECORDED!r}.")
    for name in RESULT_NAME.findall(text):
        if not (folder / name).is_file():
            raise Fault(f"README.md names {name}, which is not in tools/bench/results: add it, or name another.")
    fresh = dict(MARKED.findall(written(text, results, tables)))
    for name, rows in MARKED.findall(text):
        for line, right in zip([*rows.splitlines(), ""], [*fresh[name].splitlines(), ""]):
            if line != right:
                raise Fault(f"README.md, table {name!r}: it has {line!r}, the result files {right!r}: {MENDING}.")


def self_test():
    """A small tree; each fault that is planted must be told, and nothing else."""
    tables = {"speed": lambda results: table(["", "tokens/s"], [["CPU", three_digits(results["speed"]["rate"])]])}
    right = "# A\n" + BEGIN.format("speed") + "| | tokens/s |\n|---|---|\n| CPU | 1,230 |\n" + END + "`speed.json`\n"
    good = {"README.md": right, "speed.json": '{"commit": "1234567", "command": "bench", "rate": 1234}'}
    faults = {"it has '| CPU | 1,230 |', the result files '| CPU | 5,680 |': run": {"speed.json": good["speed.json"].replace(
                  "1234}", "5678}")},
              "has 0 tables that are marked 'speed'": {"README.md": "# A\n"},
              "has 2 tables that are marked 'speed'": {"README.md": right + right},
              "has 1 tables that are marked 'other', and this script makes 0": {"README.md": right + right.replace(
                  "table: speed", "table: other")},
              "names no commit": {"speed.json": '{"command": "bench", "rate": 1234}'},
              "names no command": {"speed.json": '{"commit": "1234567", "command": "", "rate": 1234}'},
              "names gone.json": {"README.md": right + "`gone.json`\n"},
              "table 'speed': a result file has not got": {"speed.json": '{"commit": "1234567", "command": "bench"}'},
              "cannot be read": {"speed.json": "{"}}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "tools/bench/results").mkdir(parents=True)
        for expected, change in {"": {}, **faults}.items():
            for name, text in {**good, **change}.items():
                (root / name if name == "README.md" else root / "tools/bench/results" / name).write_text(text)
            try:
                check(root, tables)
                said = ""
            except Fault as fault:
                said = str(fault)
            if expected not in said or bool(expected) != bool(said):
                sys.exit(f"readme_tables.py: self-test failed: {expected!r} was to be said, not {said!r}")
        (root / "tools/bench/results/speed.json").write_text(good["speed.json"])
        text = written(right.replace("1,230", "9"), Results(root / "tools/bench/results"), tables)
    if text != right:
        sys.exit(f"readme_tables.py: self-test failed: the table was rewritten as {text!r}")
    print(f"readme_tables.py: self-test: {len(faults)} planted faults found and nothing else")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("readme_tables.py: usage: tools/readme_tables.py [--check|--self-test]")
    try:
        if sys.argv[1:]:
            check(ROOT, TABLES)
            return print(f"readme_tables.py: {len(TABLES)} tables are as the result files have them")
        path = ROOT / "README.md"
        path.write_text(written(path.read_text(encoding="utf-8"), Results(ROOT / "tools/bench/results"), TABLES),
                        encoding="utf-8")
    except Fault as fault:
        sys.exit(f"readme_tables.py: {fault}")


if __name__ == "__main__":
    main()
