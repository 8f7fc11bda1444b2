#!/bin/sh
# The tests of the Python package as a build tree or a wheel holds it, and its types under mypy --strict. Says so and
# passes where PyPI, which has what the tests compare with, is out of reach.
#   sh tests/python/run.sh BUILD|WHEEL [OPTION OF PYTEST]...
set -eu
cd "$(dirname "$0")/../.."
build=$1
shift
venv=$PWD/build/python-tests
if [ ! -e "$venv/complete" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  if ! "$venv/bin/pip" install -q --disable-pip-version-check -r tests/python/requirements.txt 2>"$venv/log"; then
    tail -n 1 "$venv/log" >&2
    echo "tests/python: PyPI is out of reach, nothing was tested" >&2
    exit 0
  fi
  : >"$venv/complete"
fi
case $build in
  *.whl)
    "$venv/bin/pip" install -q --disable-pip-version-check --no-index --force-reinstall "$build"
    package=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    ;;
  *) package=$PWD/$build/apps/python ;;
esac
export PYTHONPATH="$package" OCELLUS_TEST_GPU=''
"$venv/bin/python" -B -m pytest -q -p no:cacheprovider tests/python "$@"
(cd "$package" && "$venv/bin/mypy" --config-file "$OLDPWD/pyproject.toml" --cache-dir "$venv/mypy" ocellus)
[ "$build" = "${build%.whl}" ] || "$venv/bin/pip" uninstall -q -y ocellus-vlm
