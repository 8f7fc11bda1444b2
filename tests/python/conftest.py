"""What the tests of the Python package share: one engine, the sample pictures, and the program to compare with."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("OCELLUS_TEST_GPU", "")
import ocellus  # noqa: E402  the driver reads the variable when it is loaded
import pytest  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "apps" / "samples"
CAPTIONS = json.loads((SAMPLES / "captions.json").read_text())


@pytest.fixture(scope="session")
def engine():
    with ocellus.Engine(budget="512M", images=4, sessions=2, device="cpu", max_top_logprobs=3, max_constraints=2) as made:
        yield made


@pytest.fixture
def session(engine):
    with engine.session() as made:
        yield made


@pytest.fixture(scope="session")
def board():
    return SAMPLES / "board_01.png"


@pytest.fixture(scope="session")
def pixels(board):
    numpy = pytest.importorskip("numpy")
    from PIL import Image
    return numpy.asarray(Image.open(board).convert("RGB"))


def run_program(*arguments: str) -> str:
    """What the program of this package prints."""
    return subprocess.run([sys.executable, "-m", "ocellus", *map(str, arguments)], check=True, capture_output=True,
                          text=True).stdout


def run_python(code: str, **options) -> subprocess.CompletedProcess:
    """Another Python with the package."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, **options)
