"""Models by name, in the cache that the hub's own tools use. The program fetches, by libcurl, and checks every byte; where
that library is missing, `huggingface_hub` fetches and the program chooses. apps/hub/README.md tells about both."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from ._native import FOLDER, Error, Status

if TYPE_CHECKING:
    from ._model import ModelFiles

_STATUS = {2: Status.BAD_ARGUMENT, 4: Status.BAD_FILE}  # of the program's exit codes; others are IO
_NO_LIBCURL = "libcurl"
_QUANTS = ("Q8_0", "Q4_K_M")  # what the program takes first


def _run(*arguments: str, quiet: bool = True) -> Any:
    """What a command of the program prints as JSON. Raises Error with its last sentence; others go to stderr."""
    sentence = ""
    command = [os.path.join(FOLDER, "bin", "ocellus"), *arguments, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stderr:
            sentence = line.strip() or sentence
            if not quiet:
                sys.stderr.write(line)
        out = process.stdout.read()
    if process.returncode != 0:
        raise Error(_STATUS.get(process.returncode, Status.IO), sentence.removeprefix("ocellus: "))
    return json.loads(out)


def _files(pair: Any) -> ModelFiles:
    from ._model import ModelFiles
    return ModelFiles(pair["model"], pair["mmproj"] or None)


def find_cached(name: str) -> ModelFiles:
    """The files of a published name that are in the cache. Connects to nothing."""
    return _files(_run("pull", name, "--offline", "--quiet"))


def pull(name: str, *, offline: bool = False, quiet: bool = False) -> ModelFiles:
    """Fetches a published pair into the hub's usual cache, and returns its files, for `Engine` and `Model`.

    `name`: one of `python -m ocellus models --published`, or OWNER/NAME at the hub; either with :QUANT. Q8_0 is taken
    where none is given. Files that are there are checked by their hashes; a fetch that was cut goes on where it was.
    `offline`: connects to nothing. `quiet`: no progress on stderr. HF_ENDPOINT, HF_TOKEN, HF_HOME and proxies are read
    from the environment. Raises Error (BAD_ARGUMENT, BAD_FILE, IO)."""
    flags = (["--offline"] if offline else []) + (["--quiet"] if quiet else [])
    try:
        return _files(_run("pull", name, *flags, quiet=quiet))
    except Error as error:
        if _NO_LIBCURL not in error.sentence:
            raise
        return _pull_by_hub(name, error)


def _pull_by_hub(name: str, failure: Error) -> ModelFiles:
    """Fetches by huggingface_hub, which begins anew after a cut; the hashes are compared here."""
    try:
        import huggingface_hub
    except ImportError:
        raise Error(failure.status, failure.sentence + " Or: pip install ocellus-vlm[hub]") from None
    plain, _, quant = name.partition(":")
    repository = plain
    if "/" not in plain:
        known = {model["name"]: model["gguf_repository"] for model in _run("models")["models"]}
        if not known.get(plain):
            raise Error(Status.BAD_ARGUMENT, f"{plain}: no repository with both GGUF files is known of it")
        repository = known[plain]
    try:
        info = huggingface_hub.HfApi().model_info(repository, files_metadata=True)
        files = {file.rfilename: file for file in info.siblings or [] if file.rfilename.endswith(".gguf")}
        wanted = [found for found in ([quant] if quant else _QUANTS)
                  if any(found.lower() in file.lower() and "mmproj" not in file for file in files)][:1]
        chosen = [file for file in files if "mmproj" in file or not wanted or wanted[0].lower() in file.lower()]
        for file in chosen:
            _check_hash(huggingface_hub.hf_hub_download(repository, file, revision=info.sha), files[file])
    except Error:
        raise
    except Exception as error:
        raise Error(Status.IO, f"{repository}: {' '.join(str(error).split())}") from None
    return find_cached(repository + (f":{quant}" if quant else ""))


def _check_hash(path: str, facts: Any) -> None:
    """Removes a file whose bytes are not those that the hub names."""
    import hashlib
    if facts.lfs is None:
        return
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    if found.hexdigest() != facts.lfs.sha256:
        os.remove(os.path.realpath(path))
        raise Error(Status.IO, f"{path}: its SHA-256 is not the hub's; it was removed")
