#!/usr/bin/env python3
"""Prints the medians of `ocellus bench --json` results, one short line a file.

usage: show_bench.py RESULT.json...
"""
import json
import statistics
import sys

for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    print("  " + "; ".join(f"{row['test']} {statistics.median(row['samples']):.4g} {row['unit']}"
                           for row in result["rows"]))
