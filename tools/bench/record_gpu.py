#!/usr/bin/env python3
"""Puts the results of gpu_bench.sh into one result file.

usage: record_gpu.py FOLDER OUT.json --commit HASH [--date YYYY-MM-DD] [--extra NAME=FILE.json ...] [--lines NAME=FILE ...]

FOLDER holds the bench_<name>.json files and, beside each, the command that made it (bench_<name>.command).
"""
import argparse
import datetime
import json
import pathlib
import statistics


def summary(path):
    result = json.loads(path.read_text(encoding="utf-8"))
    command = path.with_suffix(".command")
    rows = {row["test"]: {"unit": row["unit"], "median": statistics.median(row["samples"]), "samples": row["samples"]}
            for row in result["rows"]}
    heading = {key: value for key, value in result.items() if key not in ("rows", "command")}
    return {"command": command.read_text().strip() if command.exists() else None, **heading, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--extra", action="append", default=[], help="a JSON document to keep as it is")
    parser.add_argument("--lines", action="append", default=[], help="a timing program's output, kept line by line")
    arguments = parser.parse_args()
    benches = {path.stem.removeprefix("bench_"): summary(path)
               for path in sorted(arguments.folder.glob("bench_*.json"))}
    if not benches:
        raise SystemExit(f"{arguments.folder} holds no bench_*.json")
    device = next(iter(benches.values()))["device"]
    record = {"device": device, "date": arguments.date, "commit": arguments.commit, "benches": benches}
    for extra in arguments.extra:
        name, file = extra.split("=", 1)
        record[name] = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    for lines in arguments.lines:
        name, file = lines.split("=", 1)
        text = pathlib.Path(file).read_text(encoding="utf-8")
        record[name] = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{arguments.out}: {len(benches)} benches on {device}")


if __name__ == "__main__":
    main()
