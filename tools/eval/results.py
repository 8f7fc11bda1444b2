"""The result file: what was measured, on what, and how. It is whole at any time."""
import datetime
import hashlib
import json
import os
import subprocess
from pathlib import Path

from budget_demo import Refused
from methods import KEY, METHODS

SOURCE = Path(__file__).resolve().parents[2]


def commit():
    try:
        done = subprocess.run(["git", "-C", SOURCE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                              check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def device_name(devices, wanted):
    """The name of the device that `--device` picks: by itself a GPU, if there is one."""
    if wanted in (None, "auto"):
        chosen = [device for device in devices if device["device"] != "cpu"] or devices
    else:
        chosen = [device for device in devices if device["device"].startswith(wanted)]
    if not chosen:
        return "unknown"
    cores = f", {chosen[0]['cores']} cores" if "cores" in chosen[0] else ""
    return chosen[0]["name"] + cores


def fingerprint(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class Results:
    """Cells by their keys, written to `path` after every change."""

    def __init__(self, path, about, setup, resume):
        self.path = path
        earlier = self.read_earlier() if path.exists() else None
        if earlier and not resume:
            raise Refused(f"{path} is there already: add --resume to go on with it, or give another --out.")
        self.cells, self.failures = {}, {}
        if earlier:
            for key, value in earlier["setup"].items():
                if setup.get(key) is None and key.startswith(("captions", "text")):
                    setup[key] = value
                if value != setup.get(key) and not (value is None and key.startswith(("captions", "text"))):
                    raise Refused(f"{path} was made with another {key.replace('_', ' ')}: give another --out.")
            self.cells = {key_of(cell): cell for cell in earlier["cells"]}
        self.about = {**about, "date": datetime.date.today().isoformat(), "commit": commit()}
        self.setup = setup

    def read_earlier(self):
        try:
            earlier = json.loads(self.path.read_text(encoding="utf-8"))
            cells, _ = earlier["cells"], earlier["setup"].items()
            if not all({*KEY, "flags"} <= cell.keys() for cell in cells):
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(f"{self.path} is no result file of this program: give another --out.", 4) from error
        return earlier

    def has(self, cell, flags):
        """Whether the cell was measured, and with these flags."""
        known = self.cells.get(tuple(cell.key()))
        return known is not None and known["flags"] == flags

    def add(self, result):
        result.update(date=self.about["date"], commit=self.about["commit"])
        self.cells[key_of(result)] = result
        self.save()

    def add_failure(self, cell, exit_code, sentence):
        self.failures[tuple(cell.key())] = {**dict(zip(KEY, cell.key())), "setting": cell.name(),
                                            "exit_code": exit_code, "sentence": sentence}
        self.save()

    def of_task(self, task, pictures=None):
        """Its cells, in the order of the table of methods, the gentlest setting of each first."""
        order = list(METHODS) + [cell["method"] for cell in self.cells.values()]
        return sorted((cell for cell in self.cells.values()
                       if cell["task"] == task and (pictures is None or cell["pictures"] == pictures)),
                      key=lambda cell: (order.index(cell["method"]), -cell["bits"], -cell["keep"]))

    def save(self):
        """The new file takes the old one's place at once, so that there is always a whole one."""
        text = json.dumps({**self.about, "setup": self.setup, "cells": list(self.cells.values()),
                           "failures": list(self.failures.values())}, indent=1) + "\n"
        beside = self.path.with_name(self.path.name + ".part")
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.path)


def key_of(cell):
    return tuple(cell[key] for key in KEY)
