"""Runs the ocellus program for the tests beside this file."""

import json
import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("OCELLUS_PROGRAM", str(SOURCE / "build" / "release" / "apps" / "ocellus"))
MODEL = SOURCE / "apps" / "models" / "shapeboard-34m-q8_0.gguf"
MMPROJ = SOURCE / "apps" / "models" / "mmproj-shapeboard-34m-q8_0.gguf"
BOARDS = SOURCE / "tests" / "data" / "shapeboard"


def board(name):
    return str(BOARDS / "images" / f"{name}.png")


def goldens():
    return json.loads((BOARDS / "goldens.json").read_text())


def run(*arguments, stdin="", limit_s=120):
    """Returns the finished process with text output. A program that hangs fails the test."""
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          timeout=limit_s, check=False)
