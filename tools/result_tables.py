#!/usr/bin/env python3
"""Writes the tables of measurements in the pages (README.md and every *.md of the folders) from the result files.

    tools/result_tables.py              rewrites every table between its markers
    tools/result_tables.py --check      fails with the first table that differs, result file without commit or command, or
                                        result file that a page names and that is not there
    tools/result_tables.py --self-test  plants one fault of each kind

A table NAME stands between the lines <!-- table: NAME --> and <!-- end of table -->, once in all pages; TABLES in
result_cells.py says which function makes it. The result files are those of tools/bench/results.
A figure that is in no result file has no place in a table.
"""
import json
import re
import sys
import tempfile
from pathlib import Path

from page_style import list_pages
from result_cells import TABLES, table, three_digits

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- table: {} -->\n", "<!-- end of table -->\n"
MARKED = re.compile(r"<!-- table: ([^\n]+) -->\n(.*?)<!-- end of table -->\n", re.DOTALL)
RESULT_NAME = re.compile(r"`([a-z0-9_]+\.json)`")
MENDING = "run tools/result_tables.py"
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


def pages_of(root):
    """The text of every page under `root`, by its path."""
    return {root / name: (root / name).read_text(encoding="utf-8") for name in list_pages(root)}


def written(pages, results, tables):
    """The pages with their tables as the result files have them; throws Fault."""
    places = [(name, path.name) for path, text in pages.items() for name, _ in MARKED.findall(text)]
    for name in [*tables, *(name for name, _ in places)]:
        found = [page for marked, page in places if marked == name]
        if len(found) != 1 or name not in tables:
            raise Fault(f"the pages have {len(found)} tables that are marked {name!r} ({', '.join(found) or 'none'}), and "
                        f"this script makes {int(name in tables)}: mark one with {BEGIN.format(name).strip()} and "
                        f"{END.strip()}.")

    def rows_of(name):
        try:
            return tables[name](results)
        except (LookupError, RuntimeError) as error:  # a generator that finds no cell ends in a RuntimeError
            raise Fault(f"table {name!r}: a result file has not got what it shows ({error!r}): add the result, or take "
                        "the cell out of tools/result_cells.py.") from error

    return {path: MARKED.sub(lambda found: BEGIN.format(found[1]) + rows_of(found[1]) + END, text)
            for path, text in pages.items()}


def check_page(path, text, fresh, folder):
    """Throws the first Fault of a page: a file it names that is neither a result nor beside it, a table that differs."""
    for name in RESULT_NAME.findall(text):
        if not (folder / name).is_file() and not (path.parent / name).is_file():
            raise Fault(f"{path.name} names {name}, which is not in tools/bench/results: add it, or name another.")
    right_tables = dict(MARKED.findall(fresh))
    for name, rows in MARKED.findall(text):
        for line, right in zip([*rows.splitlines(), ""], [*right_tables[name].splitlines(), ""]):
            if line != right:
                raise Fault(f"{path.name}, table {name!r}: it has {line!r}, the result files {right!r}: {MENDING}.")


def check(root, tables):
    """Throws the first Fault of the pages and the result files under `root`."""
    pages, folder = pages_of(root), root / "tools/bench/results"
    results = Results(folder)
    for path in sorted(folder.glob("*.json")):
        for key in ("commit", "command"):
            if not results[path.stem].get(key):
                raise Fault(f"tools/bench/results/{path.name} names no {key}: add it, or {NOT_RECORDED!r}.")
    for path, fresh in written(pages, results, tables).items():
        check_page(path, pages[path], fresh, folder)


def self_test():
    """A small tree of two pages; each fault that is planted must be told, and nothing else."""
    tables = {"speed": lambda results: table(["", "tokens/s"], [["CPU", three_digits(results["speed"]["rate"])]])}
    note, result = "tools/bench/notes/speed.md", "tools/bench/results/speed.json"
    right = BEGIN.format("speed") + "| | tokens/s |\n|---|---|\n| CPU | 1,230 |\n" + END
    good = {"README.md": "# A\n`speed.json`\n", note: right + "`speed.json` and `beside.json`\n",
            "tools/bench/notes/beside.json": "{}", result: '{"commit": "1234567", "command": "bench", "rate": 1234}'}
    faults = {"speed.md, table 'speed': it has '| CPU | 1,230 |', the result files '| CPU | 5,680 |': run": {
                  result: good[result].replace("1234}", "5678}")},
              "README.md, table 'speed': it has": {"README.md": right.replace("1,230", "1"), note: ""},
              "have 0 tables that are marked 'speed' (none)": {note: "# A\n"},
              "have 2 tables that are marked 'speed' (README.md, speed.md)": {"README.md": right},
              "have 1 tables that are marked 'other' (speed.md), and this script makes 0": {
                  note: right + right.replace("table: speed", "table: other")},
              "names no commit": {result: '{"command": "bench", "rate": 1234}'},
              "names no command": {result: '{"commit": "1234567", "command": "", "rate": 1234}'},
              "README.md names gone.json": {"README.md": "`gone.json`\n"},
              "speed.md names gone.json": {note: right + "`gone.json`\n"},
              "table 'speed': a result file has not got": {result: '{"commit": "1234567", "command": "bench"}'},
              "cannot be read": {result: "{"}}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path in (note, result):
            (root / path).parent.mkdir(parents=True)
        for expected, change in {**faults, "": {}}.items():
            for name, text in {**good, **change}.items():
                (root / name).write_text(text)
            try:
                check(root, tables)
                said = ""
            except Fault as fault:
                said = str(fault)
            if expected not in said or bool(expected) != bool(said):
                sys.exit(f"result_tables.py: self-test failed: {expected!r} was to be said, not {said!r}")
        stale = {root / note: good[note].replace("1,230", "9")}
        text = written(stale, Results(root / "tools/bench/results"), tables)[root / note]
    if text != good[note]:
        sys.exit(f"result_tables.py: self-test failed: the table was rewritten as {text!r}")
    print(f"result_tables.py: self-test: {len(faults)} planted faults found and nothing else")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("result_tables.py: usage: tools/result_tables.py [--check|--self-test]")
    try:
        if sys.argv[1:]:
            check(ROOT, TABLES)
            return print(f"result_tables.py: {len(TABLES)} tables are as the result files have them")
        pages = pages_of(ROOT)
        for path, text in written(pages, Results(ROOT / "tools/bench/results"), TABLES).items():
            if text != pages[path]:
                path.write_text(text, encoding="utf-8")
    except Fault as fault:
        sys.exit(f"result_tables.py: {fault}")


if __name__ == "__main__":
    main()
