#!/usr/bin/env python3
"""Checks which names the built library offers and which it needs, and how the built files are hardened.

  tools/check_symbols.py BUILD_DIR    --write: renews the published lists; --self-test: every rule must be able to fail
  tools/check_symbols.py --hardened FILE...    programs, shared libraries and archives, wherever they are

Offers: libocellus.so the functions of ocellus.h and its parts and nothing else (exported.txt); libocellus.a the same, and
beside them only hidden names: in namespace ocellus, and weak copies of std's templates. ocellus.hpp reaches every
function. Needs: what undefined.txt lists, and never what throws, ends or surprises the host (FORBIDDEN).
The list is exact for GCC 12 on x86-64; elsewhere a name may be missing, but none may be new. CUDA's names come on top.
Hardened: every object of an archive marks the targets of jumps, but for libwebp's (tools/cmake/webp.cmake); programs and
shared libraries call canaries and checked copies, are position-independent, their stacks not executable, their
relocations done and locked at start.
"""
import argparse
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests/install/symbols"
DECLARED = re.compile(r"^OCELLUS_API [^;]*?\b(ocellus_\w+)\(", re.MULTILINE)
OURS = re.compile(r"^ocellus_\w+$|^(?:(?:non-virtual thunk to|vtable for|guard variable for|[\w:<>*&(), ]+) )?ocellus::")
STD_TEMPLATE = re.compile(r"^(?:[\w:<>*&, ]+ )?(?:std|__gnu_cxx)::")
# reason: names
FORBIDDEN = {
    "exceptions": r"__cxa_(?!atexit$|guard_|finalize$)\w+|__gxx_personality\w*|_Unwind_\w+|std::(terminate|__throw_\w+|"
                  r"\w*exception\w*)\b.*|operator new(\[\])?\(unsigned long(, std::align_val_t)?\)",
    "RTTI": r"__dynamic_cast|(typeinfo|vtable) for (?!ocellus::).*",
    "ending the host": r"abort|_?_?[eE]xit|quick_exit|at_quick_exit|__assert_\w+|__libc_fatal|raise|kill|tgkill",
    "printing": r"v?f?printf|f?put[sc]\w*|putw?char\w*|perror|psignal|fwrite\w*|std(out|err|in)|"
                r"std::(w?cout|w?cerr|w?clog|ios_base.*|basic_ostream.*|operator<<.*)|(v?sys)?log_?write|v?syslog",
    "the environment": r"(secure_)?getenv|(put|set|unset)env|environ|setlocale",
    "signal handlers": r"signal|bsd_signal|sigaction|sigset|sigaltstack",
}
# What compilers and linkers add by themselves.
TOOLCHAIN = re.compile(r"_GLOBAL_OFFSET_TABLE_|__dso_handle|__gmon_start__|_ITM_\w+|__cxa_finalize|__tls_get_addr|"
                       r"__stack_chk_(fail|guard)|__aarch64_\w+|__popcountdi2|__getauxval")
CUDA = re.compile(r"cuda[A-Z]\w+|cublasLt\w+|__cuda\w+|__nv\w+|atexit")  # nvcc registers its code at start
EXACT_COMPILER = b"GCC: (Debian 12."


def nm(path, *options):
    """(name, type) of every symbol, demangled, without versions; glibc's checked and versioned twins as the function."""
    text = subprocess.run(["nm", "-C", *options, str(path)], capture_output=True, text=True, check=True).stdout
    found = set()
    for line in text.splitlines():
        match = re.match(r"^[0-9a-f ]{16,} ([A-Za-z]) (.*)$", line)
        if match:
            name = re.sub(r"@.*$", "", match.group(2))
            name = re.sub(r"^__(\w+)_chk$", lambda m: m.group(0) if m.group(1) == "stack" else m.group(1), name)
            found.add((re.sub(r"^__isoc(99|23)_", "", name), match.group(1)))
    return found


def visible_names(archive):
    """Mangled global names that a shared library would export again. Where one object defines or uses a name as hidden,
    the linker hides it for all."""
    text = subprocess.run(["readelf", "-sW", str(archive)], capture_output=True, text=True, check=True).stdout
    rows = [row for row in (line.split() for line in text.splitlines()) if len(row) >= 8]
    return {row[7] for row in rows if row[4] in ("GLOBAL", "WEAK", "UNIQUE") and
            row[5] in ("DEFAULT", "PROTECTED") and row[6] != "UND"} - {row[7] for row in rows if row[5] == "HIDDEN"}


def readelf(option, path):
    return subprocess.run(["readelf", option, str(path)], capture_output=True, text=True, check=True).stdout


def hardening_problems(path):
    """What is missing of tools/cmake/harden.cmake in a program, a shared library or an archive."""
    if path.suffix == ".a":
        members = readelf("-nW", path).split("\nFile: ")[1:]
        bare = [member for member in members if "(webp_decoder.o)" not in member.split("\n")[0] and
                not re.search(r"feature: .*\b(IBT, SHSTK|BTI, PAC)\b", member)]
        return [f"{path.name}: -fcf-protection or -mbranch-protection: {len(bare)} objects mark no targets of jumps, "
                f"{bare[0].split(chr(10))[0]} is the first"] if bare else []
    missing = []
    names = set(re.findall(r" U (\w+)", subprocess.run(["nm", "-D", str(path)], capture_output=True, text=True,
                                                       check=True).stdout))
    if "__stack_chk_fail" not in names:
        missing.append("-fstack-protector-strong: no function has a canary")
    if not any(re.fullmatch(r"__(?!stack)\w+_chk", name) for name in names):
        missing.append("_FORTIFY_SOURCE: no copy is checked")
    dynamic, segments = readelf("-dW", path), readelf("-lW", path)
    if "Elf file type is DYN" not in segments:
        missing.append("-pie: it is loaded at a fixed address")
    if not re.search(r"\(FLAGS(_1)?\).*\b(BIND_NOW|NOW)\b", dynamic):
        missing.append("-z now: relocations wait for the first call")
    if "GNU_RELRO" not in segments:
        missing.append("-z relro: relocations stay writable")
    if re.search(r"GNU_STACK.* RWE ", segments) or "GNU_STACK" not in segments:
        missing.append("-z noexecstack: the stack is executable")
    if "TEXTREL" in dynamic:
        missing.append("-fPIC: code is relocated")
    return [f"{path.name}: {what}" for what in missing]


def check_hardening(files):
    problems = [problem for path in files for problem in hardening_problems(path)]
    if not problems:
        print(f"check_symbols.py: hardened: {', '.join(path.name for path in files)}")
    return problems


def read_list(name):
    lines = (LISTS / name).read_text().splitlines() if (LISTS / name).is_file() else []
    return {line.split("  # ")[0].strip() for line in lines if line.strip() and not line.startswith("#")}


def needs_of(archive):
    symbols = nm(archive)
    defined = {name for name, kind in symbols if kind not in "Uw"}
    return {name for name, kind in symbols if kind in "Uw"} - defined


def differences(found, wanted, what, listed):
    return [f"{what}: {name} is not in {listed}" for name in sorted(found - wanted)] + \
           [f"{what}: {name} is missing, {listed} has it" for name in sorted(wanted - found)]


def check_archive(archive, declared, listed, exact):
    problems = []
    for name, kind in sorted(nm(archive, "-g", "--defined-only")):
        if not OURS.search(name) and not (kind in "WVu" and STD_TEMPLATE.search(name)):
            problems.append(f"{archive.name}: defines {name}, which is neither ocellus_* nor in namespace ocellus")
    problems += differences(visible_names(archive), declared, archive.name + ", visible names", "ocellus.h")
    needed = {name for name in needs_of(archive) if not TOOLCHAIN.fullmatch(name) and not CUDA.fullmatch(name)}
    for name in sorted(needs_of(archive)):
        for reason, pattern in FORBIDDEN.items():
            if re.fullmatch(pattern, name):
                problems.append(f"{archive.name}: needs {name} ({reason})")
    problems += [p for p in differences(needed, listed, archive.name + ", needed names", "undefined.txt")
                 if exact or "is missing" not in p]
    return problems


def check_shared(library, declared):
    exported = {name for name, kind in nm(library, "-D", "--defined-only") if kind != "A"}  # A: the version's own name
    return differences(exported, declared, library.name, "ocellus.h")


def check_build(build, write):
    header = "\n".join(path.read_text() for path in sorted((ROOT / "runtime").glob("ocellus*.h")))
    declared = set(DECLARED.findall(header))
    archive, shared = build / "libocellus.a", build / "libocellus.so"
    cache = (build / "CMakeCache.txt").read_text()
    needed = {name for name in needs_of(archive) if not TOOLCHAIN.fullmatch(name) and not CUDA.fullmatch(name)}
    if write:
        write_lists(declared, needed)
    exact = EXACT_COMPILER in archive.read_bytes() and "x86-64" in subprocess.run(
        ["readelf", "-h", str(archive)], capture_output=True, text=True, check=True).stdout and \
        "OCELLUS_SQLITE:STRING=OFF" not in cache and "OCELLUS_WEBP:STRING=OFF" not in cache and \
        "OCELLUS_HARDEN:BOOL=OFF" not in cache
    problems = check_archive(archive, declared, read_list("undefined.txt"), exact)
    if shared.exists():
        problems += check_shared(shared, declared)
    problems += differences(declared, read_list("exported.txt"), "ocellus.h", "exported.txt")
    problems += [f"ocellus.h: {name} is declared without OCELLUS_API"
                 for name in sorted(set(re.findall(r"^\w[\w *]*?\b(ocellus_\w+)\([^;]*\);", header, re.MULTILINE))
                                    - declared)]
    cpp = (ROOT / "runtime/ocellus.hpp").read_text()
    problems += [f"ocellus.hpp: {name} cannot be reached" for name in sorted(declared)
                 if not re.search(rf"\b{name}\b", cpp)]
    if "OCELLUS_HARDEN:BOOL=ON" in cache and re.search(r"OCELLUS_SANITIZE:\w+=OFF", cache):
        shipped = [archive, shared, build / "apps/ocellus", *sorted((build / "apps").glob("*.a"))]
        problems += check_hardening([path for path in shipped if path.exists()])
    if not problems:
        forms = "both forms offer" if shared.exists() else "the archive offers"
        print(f"check_symbols.py: {forms} {len(declared)} functions and need {len(needed)} names of other libraries")
    return problems


def write_lists(declared, needed):
    (LISTS / "exported.txt").write_text("# What the library offers: the functions of ocellus.h.\n" +
                                        "".join(name + "\n" for name in sorted(declared)))
    (LISTS / "undefined.txt").write_text(
        "# What the library needs of others, beside CUDA: GCC 12, x86-64, Release. Written by tools/check_symbols.py.\n" +
        "".join(name + "\n" for name in sorted(needed)))


GOOD = '''#include <stdint.h>
namespace ocellus { struct Part { virtual ~Part(); virtual int size(); int kept; };
int add(int a, int b) { return a + b; } int Part::size() { return kept; } Part::~Part() {} }
#define API extern "C" __attribute__((visibility("default")))
API int ocellus_add(int a, int b) { return ocellus::add(a, b); }
API int ocellus_name(char* out) { return __builtin_snprintf(out, 4, "%p", (void*)out); }
'''
# What is added to the good source, and what must then be said.
BAD = {
    'API void ocellus_more() {}': "ocellus_more is not in ocellus.h",
    'int helper() { return 1; }': "defines helper()",
    '__attribute__((visibility("default"))) int ocellus_inner() { return 1; }': "ocellus_inner",
    'namespace ocellus { __attribute__((visibility("default"))) int seen() { return 1; } }': "4seenEv is not in ocellus.h",
    '#include <stdio.h>\nnamespace ocellus { void f(int i) { printf("%d", i); } }': "needs printf (printing)",
    '#include <stdlib.h>\nnamespace ocellus { void f() { abort(); } }': "needs abort (ending the host)",
    '#include <stdlib.h>\nnamespace ocellus { void f() { exit(1); } }': "needs exit (ending the host)",
    '#include <stdlib.h>\nnamespace ocellus { char* f() { return getenv("HOME"); } }': "needs getenv (the environment)",
    '#include <signal.h>\nnamespace ocellus { void f() { signal(2, SIG_IGN); } }': "needs signal (signal handlers)",
    'namespace ocellus { int* f() { return new int; } }': "needs operator new(unsigned long) (exceptions)",
    'namespace ocellus { void f() { throw 1; } }': "needs __cxa_throw (exceptions)",
    'namespace ocellus { struct B { virtual ~B(); }; struct D : B {}; D* f(B* b) { return dynamic_cast<D*>(b); } }':
        "needs __dynamic_cast (RTTI)",
    '#include <assert.h>\nnamespace ocellus { void f(int i) { assert(i); } }': "needs __assert_fail (ending the host)",
    '#include <iostream>\nnamespace ocellus { void f(int i) { std::cout << i; } }': "needs std::cout (printing)",
    '#include <vector>\nnamespace ocellus { char f(std::vector<char>& v) { return v.at(3); } }': "std::__throw_out_of_range",
    '#include <string.h>\nnamespace ocellus { size_t f(const char* s) { return strlen(s); } }': "strlen is not in undefined",
}


def self_test():
    declared, listed = {"ocellus_add", "ocellus_name"}, {"snprintf", "operator delete(void*, unsigned long)"}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for added, want in [("", ""), *BAD.items()]:
            source, thing = folder / "part.cpp", folder / "part.o"
            source.write_text(GOOD + added + "\n")
            rtti = "-frtti" if "dynamic_cast" in added else "-fno-rtti"
            subprocess.run(["c++", "-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", rtti, "-c", source, "-o", thing],
                           check=True)
            archive, shared = folder / "libtest.a", folder / "libtest.so"
            archive.unlink(missing_ok=True)
            subprocess.run(["ar", "cr", archive, thing], check=True)
            subprocess.run(["c++", "-shared", thing, "-o", shared, "-lstdc++"], check=True)
            found = check_archive(archive, declared, listed, False) + check_shared(shared, declared)
            if (want and not any(want in problem for problem in found)) or (not want and found):
                sys.exit(f"check_symbols.py: self-test failed: {added or 'the good source'} gave {found}")
        if not check_archive(archive, declared | {"ocellus_gone"}, listed | {"gone"}, True):
            sys.exit("check_symbols.py: self-test failed: what is gone was not found")
    print(f"check_symbols.py: self-test: {len(BAD)} bad libraries found, the good one passed")


HARDENED = ["-O2", "-fPIC", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2",
            {"x86_64": "-fcf-protection", "aarch64": "-mbranch-protection=standard"}.get(platform.machine(), "-O2")]
LOCKED = ["-pie", "-Wl,-z,relro,-z,now,-z,noexecstack"]
COPY = """#include <string.h>
char kept[64];
int main(int count, char** words) { char copy[16]; strcpy(copy, words[0]); memcpy(kept, copy, count); return kept[1]; }
"""
# What is changed in the flags, and what must then be said.
SOFT = [({"-fstack-protector-strong": "-fno-stack-protector"}, "no function has a canary"),
        ({"-D_FORTIFY_SOURCE=2": "-D_FORTIFY_SOURCE=0"}, "no copy is checked"),
        ({HARDENED[-1]: HARDENED[-1].split("=")[0] + "=none"}, "mark no targets"),
        ({"-pie": "-no-pie"}, "fixed address"),
        ({"-Wl,-z,relro,-z,now,-z,noexecstack": "-Wl,-z,norelro,-z,now"}, "stay writable"),
        ({"-Wl,-z,relro,-z,now,-z,noexecstack": "-Wl,-z,relro,-z,lazy"}, "wait for the first call"),
        ({"-Wl,-z,relro,-z,now,-z,noexecstack": "-Wl,-z,relro,-z,now,-z,execstack"}, "stack is executable")]


def self_test_hardening():
    with tempfile.TemporaryDirectory() as folder:
        source, thing, archive, program = (Path(folder) / name for name in ("copy.c", "copy.o", "libcopy.a", "copy"))
        source.write_text(COPY)
        for changed, want in [({}, ""), *SOFT]:
            subprocess.run(["cc", *(changed.get(flag, flag) for flag in HARDENED), "-c", source, "-o", thing], check=True)
            archive.unlink(missing_ok=True)
            subprocess.run(["ar", "cr", archive, thing], check=True)
            subprocess.run(["cc", *(changed.get(flag, flag) for flag in LOCKED), thing, "-o", program],
                           capture_output=True, check=True)
            found = hardening_problems(archive) + hardening_problems(program)
            if (want and not any(want in problem for problem in found)) or (not want and found):
                sys.exit(f"check_symbols.py: self-test failed: {changed or 'the hardened program'} gave {found}")
    print(f"check_symbols.py: self-test: {len(SOFT)} soft programs found, the hardened one passed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--hardened", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return self_test_hardening()
    if options.build is None and options.hardened is None:
        parser.error("a build folder is wanted")
    problems = check_hardening(options.hardened) if options.hardened else check_build(options.build, options.write)
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
