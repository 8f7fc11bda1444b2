#!/bin/sh
# Makes the Debian packages of a build, installs them, uses them as a stranger would, removes them, and expects that no
# file is left. Needs root and dpkg; elsewhere, and where one of the packages is installed already, it does nothing.
# usage: tools/check_deb.sh BUILD_DIR
set -eu
cd "$(dirname "$0")/.."
build=$(cd "${1:?usage: tools/check_deb.sh BUILD_DIR}" && pwd)
packages="ocellus libocellus0.1 libocellus-dev"

if [ "$(id -u)" -ne 0 ] || ! command -v dpkg >/dev/null; then
  echo "check_deb: no root or no dpkg here, no package was made"
  exit 0
fi
for package in $packages; do
  case $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true) in
    "" | *not-installed) ;;
    *) echo "check_deb: $package is installed here already, no package was made"; exit 0 ;;
  esac
done
sh tools/setup.sh

work=$(mktemp -d)
chmod 755 "$work"
trap 'dpkg --purge $packages >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
(cd "$build" && cpack -G DEB -B "$work/deb") >"$work/cpack.log" 2>&1 || { cat "$work/cpack.log" >&2; exit 1; }
for file in "$work"/deb/*.deb; do
  echo "check_deb: $(basename "$file"), $(stat -c %s "$file") bytes, needs: $(dpkg-deb -f "$file" Depends)"
done
if command -v lintian >/dev/null; then
  # Not for the archive of a distribution: no bug number, no symbols file. CPack itself adds calls of ldconfig.
  lintian --allow-root --fail-on error,warning "$work"/deb/*.deb \
    --suppress-tags initial-upload-closes-no-bugs,no-symbols-control-file,maintscript-calls-ldconfig
fi

fail() {
  echo "check_deb: $*" >&2
  exit 1
}
dpkg -i "$work"/deb/*.deb >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; exit 1; }
dpkg -L $packages | sort -u >"$work/files"
python3 tools/check_symbols.py --hardened /usr/bin/ocellus $(grep '/libocellus\.\(a\|so\.0\.1\.0\)$' "$work/files")
cd "$work"  # nothing of the source folder may be needed from here on
samples=$OLDPWD/apps/samples
want=$(sed -n 's/.*"board_01.png": "\(.*\)".*/\1/p' "$samples/captions.json")
check() {  # check NAME COMMAND...
  name=$1
  shift
  got=$("$@" | sed 's/^ *//')
  [ "$got" = "$want" ] || fail "$name answered '$got' instead of '$want'"
  echo "check_deb: $name: $got"
}
models=/usr/share/ocellus/models
check "the program" env -i /usr/bin/ocellus caption --quiet --prompt "Describe this image." "$samples/board_01.png"
examples=/usr/share/doc/libocellus-dev/examples
[ -e "$examples" ] || examples=$OLDPWD/apps/examples  # small images of Debian are set up without any documentation
${CC:-cc} -std=c99 "$examples/caption.c" -o caption $(pkg-config --cflags --libs ocellus)
check "a program linked to the shared library" ./caption "$models/shapeboard-34m-q8_0.gguf" \
  "$models/mmproj-shapeboard-34m-q8_0.gguf" "$samples/board_01.png"
${CC:-cc} -std=c99 "$examples/caption.c" -o caption-archive $(pkg-config --cflags --libs ocellus-static)
check "a program linked to the archive" ./caption-archive "$models/shapeboard-34m-q8_0.gguf" \
  "$models/mmproj-shapeboard-34m-q8_0.gguf" "$samples/board_01.png"
for file in man/man1/ocellus.1.gz man/man1/ocellus-library-add.1.gz bash-completion/completions/ocellus \
  zsh/vendor-completions/_ocellus fish/vendor_completions.d/ocellus.fish; do
  grep -q "^/usr/share/$file$" "$work/files" || fail "there is no $file"
done

dpkg --purge $packages >>"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; exit 1; }
left=$(grep ocellus "$work/files" | while read -r path; do [ ! -e "$path" ] || echo "$path"; done)
[ -z "$left" ] || fail "after removing, these are left: $left"
ldconfig -p | grep -q ocellus && fail "the linker's cache still knows the library"
echo "check_deb: removed, nothing is left of $(wc -l <"$work/files") paths"
