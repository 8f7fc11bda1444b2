#!/usr/bin/env python3
"""Checks findings/: each script is sh that parses and has a row of the table in findings/README.md, and each row a script.
What the scripts show is not run: they install packages of others."""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| `([^`]+)\.sh` \|")


def find_faults(folder):
    scripts = {path.stem for path in folder.glob("*.sh")}
    rows = [found[1] for line in (folder / "README.md").read_text().splitlines() if (found := ROW.match(line))]
    faults = [f"{name}.sh has no row in README.md" for name in scripts - set(rows)]
    faults += [f"README.md has a row for {name}.sh, which is not there" for name in set(rows) - scripts]
    faults += [f"README.md has {rows.count(name)} rows for {name}.sh" for name in set(rows) if rows.count(name) > 1]
    for path in [folder / "steps", *folder.glob("*.sh")]:
        parsed = subprocess.run(["sh", "-n", path], capture_output=True, text=True)
        if parsed.returncode != 0:
            faults.append(f"{path.name} does not parse: {parsed.stderr.strip()}")
    return sorted(faults)


def self_test():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "steps").write_text("set -eu\n")
        (folder / "README.md").write_text("| `good.sh` | a |\n| `gone.sh` | b |\n")
        (folder / "good.sh").write_text("echo ok\n")
        (folder / "new.sh").write_text("if\n")
        faults = find_faults(folder)
    assert [fault.split(":")[0] for fault in faults] == [
        "README.md has a row for gone.sh, which is not there", "new.sh does not parse", "new.sh has no row in README.md"], faults


def main():
    if "--self-test" in sys.argv[1:]:
        return self_test()
    faults = find_faults(ROOT / "findings")
    for fault in faults:
        print(f"findings: {fault}", file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
