#!/usr/bin/env python3
"""Sums kernel times of an `ncu --csv` listing of gpu__time_duration.sum by kernel, longest first.

usage: ncu --graph-profiling node --csv --metrics gpu__time_duration.sum PROGRAM... | kernel_times.py
"""
import collections
import csv
import sys

lines = [line for line in sys.stdin if line.startswith('"')]
times, counts = collections.Counter(), collections.Counter()
for row in csv.DictReader(lines):
    name = row["Kernel Name"].split("(")[0][-70:]
    scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3}[row["Metric Unit"].replace("second", "s").replace("nsecond", "ns")]
    times[name] += float(row["Metric Value"].replace(",", "")) * scale
    counts[name] += 1
print(f"{sum(times.values()):10.1f} us in all")
for name, time in times.most_common(25):
    print(f"{time:10.1f} us  {counts[name]:6d} x {time / counts[name]:8.2f}  {name}")
