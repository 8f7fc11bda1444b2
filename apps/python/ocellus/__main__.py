"""`python -m ocellus`: the program, with all its commands."""
from __future__ import annotations

import os
import sys

from ._native import FOLDER


def main() -> None:
    """Becomes the program."""
    program = os.path.join(FOLDER, "bin", "ocellus")
    try:
        os.execv(program, ["ocellus", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"ocellus: {program}: {error.strerror}")


if __name__ == "__main__":
    main()
