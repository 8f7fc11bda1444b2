"""Virtual environments below the build folder, for tests that need Python packages which are not installed."""

import os
import pathlib
import subprocess
import sys

from program import PROGRAM


def go_on_with(name, requirements):
    """Ends this process; goes on in one whose Python has the packages of the file `requirements`. Installs them first if
    the environment `name` has not got them, or was made of other ones."""
    folder = pathlib.Path(PROGRAM).resolve().parents[1] / f"{name}-venv"
    python = folder / "bin" / "python"
    if os.environ.get("OCELLUS_TEST_VENV") == str(folder):
        sys.exit(f"the packages of {requirements} were installed, but cannot be imported")
    wanted = pathlib.Path(requirements).read_text()
    ready = folder / "ready"
    if not ready.exists() or ready.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements],
                       check=True)
        ready.write_text(wanted)
    os.environ["OCELLUS_TEST_VENV"] = str(folder)
    os.execv(python, [str(python), "-B", *sys.argv])
