#!/bin/sh
# The demo, then every test and check, and at the end what each took. Options go to CMake. OCELLUS_CLIENTS=1: also the
# clients of `serve` from PyPI, and with OCELLUS_LMMS=1 lmms-eval, which takes 7 GB.
set -eu
cd "$(dirname "$0")/.."
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE

times_folder=$(mktemp -d)
cleanup() {
  status=$?
  wait || true  # what runs beside mounts and installs, and cleans up
  cat "$times_folder"/*.log 2>/dev/null || true
  printf '%-26s %8s %14s\n' "test.sh: stage" seconds "processor's"
  cat "$times_folder/table" 2>/dev/null || true
  rm -rf "$times_folder"
  exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM
count_processor() {  # count_processor FILE: seconds that finished commands have used, out of what `times` wrote
  awk 'NR == 2 { split($1, user, /[ms]/); split($2, kernel, /[ms]/)
                 print int(60 * (user[1] + kernel[1]) + user[2] + kernel[2]) }' "$1"
}
stage() {  # stage NAME COMMAND...
  stage_name=$1
  shift
  stage_start=$(date +%s)
  times >"$times_folder/$stage_name"
  stage_processor=$(count_processor "$times_folder/$stage_name")
  "$@"
  times >"$times_folder/$stage_name"
  stage_line=$(printf '%-26s %8d %14d' "$stage_name" $(($(date +%s) - stage_start)) \
    $(($(count_processor "$times_folder/$stage_name") - stage_processor)))
  echo "$stage_line" >>"$times_folder/table"
  echo "test.sh: $stage_line"
}

start_beside() {  # start_beside FUNCTION: its words come with wait_beside
  (set -e; "$1") >"$times_folder/$1.log" 2>&1 &
  echo $! >"$times_folder/$1.process"
}
wait_beside() {  # wait_beside FUNCTION
  wait "$(cat "$times_folder/$1.process")"
  cat "$times_folder/$1.log"
  rm "$times_folder/$1.log"
}

sh tools/setup.sh
sh tools/setup.sh doxygen
# The page is tested in a Chromium. Ubuntu's package of that name is a stub for a snap, so one must be there already.
has_browser() {
  python3 -c 'import sys; sys.path.insert(0, "tests/apps"); import browser; sys.exit(not browser.find_browser())'
}
if ! has_browser && grep -q '^ID=debian' /etc/os-release 2>/dev/null; then
  sh tools/setup.sh chromium
elif ! has_browser; then
  echo "test: no Chromium or Chrome was found: the tests of the page are left out" >&2
  export OCELLUS_NO_BROWSER=1
fi
if grep -q '^ID=debian' /etc/os-release 2>/dev/null; then
  sh tools/setup.sh mmdebstrap mandoc zsh fish  # for check_fresh.sh and help_test.py
fi
if [ "$(uname -m)" = x86_64 ] && grep -q '^ID=debian' /etc/os-release 2>/dev/null; then
  sh tools/setup.sh g++-aarch64-linux-gnu qemu-user
fi
check_tree() {
  python3 tools/check_layers.py --self-test
  python3 tools/check_style.py --self-test
  python3 tools/check_symbols.py --self-test
  python3 tools/check_findings.py --self-test
  python3 tools/reliability.py --self-test
  python3 tools/result_tables.py --self-test
  python3 tools/check_layers.py
  python3 tools/check_style.py
  python3 tools/check_findings.py
  python3 tools/result_tables.py --check
  python3 tools/reliability.py --check
  python3 tools/architecture.py --check
}
stage "the tree" check_tree
build_reference() {
  sh tools/reference.sh --self-test
  sh tools/reference.sh
}
stage "reference" build_reference

stage "the demo" sh tools/demo.sh "$@"
stage "pages" python3 tests/install/pages_test.py
stage "build of the rest" sh tools/build.sh release all -DOCELLUS_PYTHON=ON "$@"
# The Python package, its notebooks and the site take one processor and the network, beside tests that wait a third of
# their time.
run_notebooks() {  # exit code 77: PyPI is out of reach, as it has said
  sh tools/notebooks.sh || [ $? = 77 ]
}
build_site() {
  python3 tools/site/check.py --self-test
  python3 tools/site/pages.py --self-test
  sh tools/site.sh || [ $? = 77 ]
}
try_python() {
  stage "Python" sh tests/python/run.sh build/release
  stage "notebooks" run_notebooks
  stage "site" build_site
}
# Once more under AddressSanitizer and UndefinedBehaviorSanitizer (whose code makes GCC warn falsely, so without the options
# above): with the objects of tests that are there, and at the lowest priority, beside tests that wait a third of their
# time.
build_sanitized() {
  stage "sanitized build" nice -n 19 sh tools/build.sh asan all -DOCELLUS_TESTS_FROM="$PWD/build/release"
}
start_beside try_python
start_beside build_sanitized
# One test more than processors: those of the program wait, for each other's frames and requests.
stage "tests" ctest --preset release --parallel $(($(nproc) + 1))
wait_beside try_python
stage "samples" python3 tests/apps/samples_test.py build/release/apps/ocellus
stage "branches" python3 tools/branch_sizes.py build/release
try_packages() {  # try_packages TEST; exit code 77: PyPI is out of reach, as it has said
  OCELLUS_PROGRAM=build/release/apps/ocellus python3 -B "tests/apps/$1" || [ $? = 77 ]
}
if [ "${OCELLUS_CLIENTS:-}" = 1 ]; then
  stage "clients" try_packages clients_test.py
fi
if [ "${OCELLUS_LMMS:-}" = 1 ]; then
  stage "lmms-eval" try_packages lmms_test.py
fi

# What is built is installed, packed and taken to a bare system while the sanitized tests, which leave out what takes hours
# there, take the processors: one waits for the network and for single compilers.
try_installations() {
  stage "symbols" python3 tools/check_symbols.py build/release
  stage "installation" sh tests/install/run.sh build/release
  stage "packages" sh tools/check_deb.sh build/release
  stage "bare system" sh tools/check_fresh.sh build/release
}
wait_beside build_sanitized
start_beside try_installations
stage "sanitized tests" ctest --preset asan --parallel "$(nproc)" --label-exclude long --timeout 1200
wait_beside try_installations
try_fuzzing() {
  stage "fuzzing" python3 tools/fuzz.py 120 --program build/asan/tests/ocellus_fuzz --engine mutations
}
start_beside try_fuzzing
stage "CUDA" sh tools/check_cuda.sh
wait_beside try_fuzzing
stage "aarch64" sh tools/check_aarch64.sh
