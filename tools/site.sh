#!/bin/sh
# Builds the documentation site: the pages, the reference of the C and C++ API, the Python package, notebooks and the files
# that they name, as one site that needs no server and no network. Its index.html is the start. A warning, a link that leads
# nowhere and a file from elsewhere are failures.
# usage: tools/site.sh [OUT]        (default: build/site)
# Exit code 77: the packages of tools/site/requirements.txt are not installed, and PyPI is out of reach.
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/site}
work=build/site-work
venv=build/site-venv
export PYTHONDONTWRITEBYTECODE=1

sh tools/site/venv.sh "$venv" tools/site/requirements.txt
[ ! -e "$out" ] || [ -f "$out/objects.inv" ] || [ -z "$(ls -A "$out")" ] || {
  echo "site.sh: $out is there already, and is no site" >&2
  exit 1
}
sh tools/reference.sh
rm -rf "$work"
mkdir -p "$work"
python3 tools/site/pages.py build/reference/xml "$work/pages"
"$venv/bin/sphinx-build" -q -W --keep-going -j "$(nproc)" -d "$work/trees" -c tools/site "$work/pages" "$work/site"
python3 tools/site/check.py "$work/site"
rm -rf "$out"
mkdir -p "$(dirname "$out")"
mv "$work/site" "$out"
rm -rf "$work"
echo "site.sh: built; begin with $out/index.html"
