"""Runs notebooks, each in a scratch folder, and writes them with their outputs.

usage: run_notebooks.py OUT NOTEBOOK...
"""
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

SECONDS = 300  # of a cell


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for path in map(Path, sys.argv[2:]):
        notebook = nbformat.read(path, as_version=4)
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                NotebookClient(notebook, timeout=SECONDS, startup_timeout=SECONDS, kernel_name="python3",
                               extra_arguments=["--IPKernelApp.log_level=40"],  # its ports are on loopback: nothing to warn of
                               resources={"metadata": {"path": folder}}).execute()
            except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                sys.exit(f"{path}: {error}")
        nbformat.write(notebook, out / path.name)
        print(f"{path}: {len(notebook.cells)} cells in {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
