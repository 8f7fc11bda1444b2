#!/bin/sh
# Builds the reference of the C and C++ API from the public headers; build/reference/html/ocellus_8h.html is its start.
# A warning of Doxygen, a name without a sentence or a header without a place in it is a failure.
# --self-test: each of them must be found.
set -eu
cd "$(dirname "$0")/.."

build_reference() {  # build_reference HEADERS OUTPUT: says what is wrong
  rm -rf "$2"
  mkdir -p "$2"
  { cat runtime/Doxyfile; echo "INPUT = $1"; echo "OUTPUT_DIRECTORY = $2"; echo "GENERATE_TAGFILE = $2/ocellus.tag"; } |
    doxygen - 2>&1 || return 1
  for header in "$1"/ocellus*.h "$1"/ocellus.hpp; do
    grep -q "<name>${header##*/}</name>" "$2/ocellus.tag" || { echo "$header: it has no @file, so that none of it is shown"; return 1; }
  done
}

if [ "${1:-}" = --self-test ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  check_fault() {  # check_fault HEADER SED-SCRIPT WORDS: the header so changed must be refused with these words
    mkdir -p "$work/headers"
    cp runtime/ocellus*.h runtime/ocellus.hpp "$work/headers"
    sed -i "$2" "$work/headers/$1"
    ! cmp -s "runtime/$1" "$work/headers/$1" || { echo "reference.sh: self-test: $2 changes nothing" >&2; exit 1; }
    ! build_reference "$work/headers" "$work/reference" >"$work/said" || { echo "reference.sh: $2 was not found" >&2; exit 1; }
    grep -q "$3" "$work/said" || { echo "reference.sh: $2 gave:" >&2; cat "$work/said" >&2; exit 1; }
  }
  check_fault ocellus_plan.h 's|/\*\*< maximum of the plan.s total.*||' 'budget_bytes.*is not documented'
  check_fault ocellus.h 's|^/\*\* Opens one of the planned sessions.*||' 'ocellus_session_open.*is not documented'
  check_fault ocellus_plan.h 's|::ocellus_device;|::ocellus_devices;|' 'ocellus_devices.*could not be resolved'
  check_fault ocellus.hpp '/^  \/\/\/ Calls ocellus_session_mark/d' 'mark().*is not documented'
  check_fault ocellus_measure.h 's|^/\*\* @file||' 'ocellus_measure.h: it has no @file'
  echo "reference.sh: self-test: 5 faults found"
  exit
fi
said=$(build_reference runtime build/reference) || { echo "$said" >&2; exit 1; }
echo "reference.sh: built; begin with build/reference/html/ocellus_8h.html"
