#!/bin/sh
# Makes a virtual environment with the packages of a file, unless it is there already.
# usage: tools/site/venv.sh FOLDER REQUIREMENTS
# Exit code 77: PyPI is out of reach.
set -eu
venv=$1
requirements=$2
! cmp -s "$requirements" "$venv/ready" || exit 0
rm -rf "$venv"
mkdir -p "$(dirname "$venv")"
python3 -m venv "$venv"
said=$("$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 -r "$requirements" 2>&1) || {
  case $said in
    *"from versions: none"*) echo "the packages of $requirements were not installed: PyPI is out of reach" >&2; exit 77 ;;
    *) echo "$said" >&2; exit 1 ;;
  esac
}
cp "$requirements" "$venv/ready"
