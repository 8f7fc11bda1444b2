#!/bin/sh
# Runs the notebooks of apps/python/notebooks and leaves them with their outputs in build/notebooks, where tools/site.sh finds
# them. A cell that fails is a failure.
# usage: tools/notebooks.sh [PACKAGE]   a wheel, or a folder in which ocellus/ lies (default: build/release/apps/python)
# Exit code 77: Jupyter's packages are not installed, and PyPI is out of reach.
set -eu
cd "$(dirname "$0")/.."
package=${1:-build/release/apps/python}
venv=build/notebooks-venv
export PYTHONDONTWRITEBYTECODE=1

sh tools/site/venv.sh "$venv" tools/site/notebooks_requirements.txt
case $package in
  *.whl) "$venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps --no-index "$package" ;;
  *)
    [ -d "$package/ocellus" ] || { echo "notebooks.sh: $package has no package ocellus" >&2; exit 1; }
    PYTHONPATH=$(cd "$package" && pwd)
    export PYTHONPATH
    ;;
esac
"$venv/bin/python" tools/site/run_notebooks.py build/notebooks apps/python/notebooks/*.ipynb
