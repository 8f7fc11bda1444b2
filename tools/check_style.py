#!/usr/bin/env python3
"""Checks format, size and names: clang-format, lines per file, lines per function, fields of the structs that ops and
kernels are called with, functions of classes, a test and both sources for every op,
no two types of one name in one namespace (a linker would mix up their members, whichever it meets first), plain English in
comments and sentences, and pages (page_style.py).

Limits: header 200 lines, source 500, function 60 (in kernels/ 120, but 60 for host functions of CUDA files), 12 fields
of a struct in kernels/ or one called Args, 30 functions of a class, constructors and operators left out.
Exceptions stand in the tables below, each with its reason; an exception that is not needed any more is a failure.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from page_style import check_pages

FOLDERS = ["platform", "quant", "kernels", "mm", "runtime", "apps", "tests", "tools"]
HEADERS = {".h", ".hpp", ".cuh"}
SOURCES = {".cpp", ".c", ".cu"}
CUDA = {".cu", ".cuh"}
HEADER_LINES, SOURCE_LINES, FUNCTION_LINES, KERNEL_LINES = 200, 500, 60, 120
ARGUMENT_FIELDS, CLASS_FUNCTIONS = 12, 30
FORMATTERS = ["clang-format-14", "clang-format"]
FORMAT_VERSION = "version 14."

# path: reason
LONG_FILES = {
    "runtime/ocellus.h": "what most programs use of the public interface, with a sentence for each name",
    "runtime/ocellus.hpp": "the whole public interface once more, for C++",
}
# path:function: reason
LONG_FUNCTIONS = {}
# path:type: reason
WIDE_TYPES = {
    "kernels/attention/attend_rows_place.cuh:RowsWork": "what the kernels of one op share, filled in one function",
    "kernels/attention/step/block.cuh:StepPiece": "registers of a block, one value each",
    "kernels/base/kv_run.h:KvRun": "a record of 64 bytes that the host lists and the device reads",
    "kernels/cache/score_rows_tile.cuh:ScoreWork": "what the kernels of one op share, filled in one function",
    "kernels/sampling/sample_room.cuh:Room": "shared memory of a block, an array for each step of sampling",
    "platform/queue.h:Queue": "everything that ops and whoever drives them ask of a device, none of it with state of its own",
    "quant/gguf.h:GgufFile": "one getter for each type of key and each fact of a file",
    "runtime/cache/kept_slots.h:KeptSlots": "slots that prompts leave: their pages, blocks and counts, filled on the device",
    "runtime/cache/kv_cache.h:SessionCache": "the cache of a session: text pages, images, kept slots and their marks",
    "runtime/branches/library/library_store.h:LibraryStore": "every operation on the folder of a library, each a transaction",
    "tests/support/gguf_builder.h:GgufBuilder": "one setter for each kind of key that tests write",
}
# headers of kernels/ that are no op: shared vocabulary and helpers
NO_OP = {
    "attend_rows_plan": "tile choice of attend_rows, tested with it",
    "backends": "the list of ops",
    "hash_term": "arithmetic that the hashes of logits and of views share, tested with both",
    "highway_targets": "which instruction sets are compiled",
    "kv_run": "a struct that the attention ops share",
    "matmul_codes": "the int8 half of matmul, tested with it",
    "matmul_library": "what matmul keeps between calls on CUDA, tested with it",
    "matmul_pairs": "the bf16 half of matmul on the CPU, tested with it",
    "matmul_scratch": "how matmul cuts its operands on CUDA, tested with it",
    "matmul_tiles": "matmul by the tiles of AMX, tested with it",
    "norm_matmul_parts": "the ops that norm_matmul stands for on both backends, tested with it",
    "pairs": "which CPUs multiply bf16",
    "past_runs": "a struct that the ops over a chunk's rows share",
    "picture_math": "arithmetic that both backends of the picture ops share, tested with them",
    "resample_math": "arithmetic that both backends of the picture ops share, tested with them",
    "rope_angles": "arithmetic that rope and attention share, tested with rope",
    "row_pieces": "how the ops cut rows into pieces for threads",
    "adjust_logit": "arithmetic of biases and penalties that both backends of sample share, tested with it",
    "sample_row": "arithmetic that both backends of sample share, tested with it",
    "score_rows_plan": "tile choice and scratch of score_rows, tested with it",
    "shapes": "the shape alphabet",
    "patch_grid": "a struct with the order of patches that the ops of views share",
    "slot_ledger": "a struct that the ops share where slots go while sessions answer",
    "step_row": "a struct that the ops of a decode step share",
    "step_tiles": "structs that the ops of a decode step share",
    "transpose_avx512": "shuffles that the CPU's products share, tested with them",
}
# ops of one backend: the source they do have, and why
ONE_BACKEND = {
    "attend_one": ("_cpu.cpp", "the CPU's half of attend_step"),
    "matmul_few_rows": (".cu", "CUDA's way of multiplying few rows, for three ops"),
    "nearest_rows": ("_cpu.cpp", "the image library searches while the GPU has other work"),
    "picture_rows": ("_cpu.cpp", "pictures in files are resized while they are decoded"),
}

# pages that have more lines than others, each with its reason
LONG_PAGES = {}

# folders whose comments and sentences are checked for the habits below
PLAIN_FOLDERS = ["platform", "quant", "kernels", "mm", "runtime", "apps", "tools"]
# first words of comments that leave the subject to be guessed: "Bytes of the file", not "Of the file"
NO_SUBJECT = re.compile(r"///?[ ]?(Of|That|Those|What|Where|For|Whether|How|Who|Whom|Whose|Why)\b", re.IGNORECASE)
# word: the plain one
UNUSUAL = {
    "and the like": "what they are", "behind": "after", "come of": "happened to", "become of": "happens to", "becomes of": "happens to", "goes on with": "continues with", "gone": "dropped",
    "hears": "is notified", "manieth": "a fraction", "nobody": "no one, or the passive", "so many": "the number",
    "so much": "the amount", "somebody": "the caller, or the passive",
}
UNUSUAL_WORD = re.compile(rf"\b({'|'.join(UNUSUAL)})\b", re.IGNORECASE)
SENTENCE = re.compile(r"(\S+\s+){2}\S")  # a literal of three words or more

NOT_CODE = re.compile(r"""//[^\n]* | /\*.*?\*/ | R"(\w*)\(.*?\)\1" | "(?:\\.|[^"\\\n])*" |
                          (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'""", re.DOTALL | re.VERBOSE)
ATTRIBUTE = re.compile(r"__launch_bounds__\s*\([^()]*(?:\([^()]*\)[^()]*)*\)")
ON_DEVICE = re.compile(r"\b__(?:global|device)__\b")
TYPE = re.compile(r"(?:struct|class|union|enum(?: class)?)(?: \[\[\w+\]\])? (\w+)(?: final)?(?: : ?[^;]*)? \{")
CLASS = re.compile(r"^ *(struct|class)(?: \[\[\w+\]\])?(?: alignas\([^)]*\))? (\w+)(?: final)?(?: : [^;{]*)? \{", re.MULTILINE)
NO_MEMBER = re.compile(r"(using|friend|static_assert|typedef|enum|template)\b|(struct|class|union)\b(?![^{]*\{\} \w)")
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$|\bTEST_SUITE\b")


def blank(match):
    """Comments and literals as spaces, so that offsets and line numbers stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


def functions(text):
    """(name, first line, line count, whether a GPU runs it) of every function body, by matching braces; good enough for
    formatted code."""
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, NOT_CODE.sub(blank, text), flags=re.MULTILINE)
    found, scopes, start = [], [], 0  # scopes: None for a namespace or class, else (name, offset) of a function
    for match in re.finditer(r"[{};]", text):
        head = text[start:match.start()]
        inside = any(scopes)
        if match.group() == "{":
            is_body = not inside and not SCOPE.search(head) and ")" in head
            opens = (name_in(head), match.start(), bool(ON_DEVICE.search(head))) if is_body else None
            scopes.append(opens if not inside else ())
        elif match.group() == "}" and scopes:
            closed = scopes.pop()
            if closed:
                first = text.count("\n", 0, closed[1]) + 1
                found.append((closed[0], first, text.count("\n", 0, match.start()) + 2 - first, closed[2]))
        start = match.end()
    return found


def name_in(head):
    """The function's name in the text before its body: the word before the first parenthesis."""
    before = ATTRIBUTE.sub("", head).split("(")[0].split()
    return before[-1].lstrip("*&") if before else "?"


def declarations(body):
    """The declarations in a class, without what stands in inner braces, parentheses and angle brackets."""
    parts, depth, part = [], 0, ""
    for mark in re.sub(r"\b(public|private|protected):", "", body):
        if mark in ")}":
            depth -= 1
        if depth == 0:
            part += mark
        if mark in "({":
            depth += 1
        is_function = mark == "}" and depth == 0 and "()" in part.split("=")[0] and not re.search(r"\) *= *\{\}$", part)
        if depth == 0 and (mark == ";" or is_function):
            parts.append(" ".join(part.split()).rstrip(";"))
            part = ""
    while any("<" in part for part in parts):
        shorter = [re.sub(r"<[^<>]*>", "", part) for part in parts]
        if shorter == parts:
            break
        parts = shorter
    return [re.sub(r"^template ", "", part) for part in parts if part]


def count_members(name, body):
    """(fields, functions) of a class or struct in formatted code."""
    fields, functions_found = 0, 0
    for part in declarations(body):
        head = part.split("=")[0].replace("alignas()", "")
        if "()" in head or "operator" in head:
            is_plain = "operator" not in head and not re.search(rf"~?\b{name}\(\)", head)
            functions_found += is_plain and not NO_MEMBER.match(head)
        elif not NO_MEMBER.match(part) and not part.startswith("static "):
            fields += part.count(",") + 1
    return fields, functions_found


def check_types(root, wide_types):
    problems, used = [], set()
    for path in code_files(root):
        name = path.relative_to(root).as_posix()
        text = NOT_CODE.sub(blank, path.read_text(encoding="utf-8"))
        for match in CLASS.finditer(text):
            end, depth = match.end(), 1
            while depth > 0:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            fields, found = count_members(match.group(2), text[match.end():end - 1])
            is_argument = match.group(1) == "struct" and (name.startswith("kernels/") or match.group(2).endswith("Args"))
            told = [f"{fields} fields, the limit is {ARGUMENT_FIELDS}"] if is_argument and fields > ARGUMENT_FIELDS else []
            told += [f"{found} functions, the limit is {CLASS_FUNCTIONS}"] if found > CLASS_FUNCTIONS else []
            if not told:
                continue
            used.add(f"{name}:{match.group(2)}")
            if f"{name}:{match.group(2)}" not in wide_types:
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{name}:{line}: {match.group(2)} has {' and '.join(told)}")
    return problems + [f"check_style.py: the exception for {name} is not needed any more"
                       for name in sorted(set(wide_types) - used)]


def code_files(root):
    paths = (path for folder in FOLDERS for path in sorted((root / folder).rglob("*")))
    return [path for path in paths if path.suffix in HEADERS | SOURCES]


def check_sizes(root, long_files, long_functions):
    problems, used = [], set()
    for path in code_files(root):
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        lines, limit = text.count("\n"), HEADER_LINES if path.suffix in HEADERS else SOURCE_LINES
        if lines > limit:
            used.add(name)
            if name not in long_files:
                problems.append(f"{name}: {lines} lines, the limit is {limit}")
        kernels = name.startswith("kernels/") and (path.suffix in SOURCES | CUDA or name.endswith("-inl.h"))
        for function, first, lines, on_device in functions(text):
            limit = KERNEL_LINES if kernels and (on_device or path.suffix not in CUDA) else FUNCTION_LINES
            if lines > limit:
                used.add(f"{name}:{function}")
                if f"{name}:{function}" not in long_functions:
                    problems.append(f"{name}:{first}: {function} has {lines} lines, the limit is {limit}")
    stale = (set(long_files) | set(long_functions)) - used
    return problems + [f"check_style.py: the exception for {name} is not needed any more" for name in sorted(stale)]


def check_siblings(root, no_op, one_backend):
    """One op, one stem: contract, source for the CPU, source for CUDA, and test. kernels/FLOOR/ROOM/ holds parts of an op."""
    folders = {header.stem: header.parent.relative_to(root) for header in sorted((root / "kernels").rglob("*.h"))
               if len(header.relative_to(root).parts) <= 3}
    problems = [f"check_style.py: the exception for {stem}.h in kernels/ is not needed any more"
                for stem in sorted({*no_op, *one_backend} - set(folders))]
    for stem, folder in folders.items():
        if stem in no_op or stem.endswith("-inl"):
            continue
        sources = [one_backend[stem][0]] if stem in one_backend else ["_cpu.cpp", ".cu"]
        for sibling in [f"{folder}/{stem}{source}" for source in sources] + [f"tests/{folder}/{stem}_test.cpp"]:
            if not (root / sibling).is_file():
                problems.append(f"{folder}/{stem}.h: {sibling} is missing")
    return problems


def types(text):
    """(namespace, name) of every type at namespace scope that other files could see, in formatted code."""
    scopes = []
    for line, whole in zip(NOT_CODE.sub(blank, text).split("\n"), text.split("\n")):
        if opened := re.match(r"(?:inline )?namespace(?: ([\w:]+))? \{", line):
            scopes.append(opened.group(1) or "(none)")
        elif whole.startswith("}  // namespace") and scopes:
            scopes.pop()
        elif (found := TYPE.match(line)) and "(none)" not in scopes:
            yield "::".join(scopes), found.group(1)


def check_names(root):
    places = {}
    for path in code_files(root):
        if path.suffix != ".c" and "examples" not in path.parts:
            for type_name in types(path.read_text(encoding="utf-8")):
                places.setdefault(type_name, []).append(path.relative_to(root).as_posix())
    return [f"{files[1]}: {'::'.join(name)} stands in {files[0]}, too" for name, files in places.items() if len(files) > 1]


def check_sentences(root, folders):
    """Comments start with their subject or verb; neither they nor sentences in literals use the words of UNUSUAL."""
    problems = []
    for path in code_files(root):
        name, last = path.relative_to(root).as_posix(), -1
        if not name.startswith(tuple(f"{folder}/" for folder in folders)):
            continue
        text = path.read_text(encoding="utf-8")
        for match in NOT_CODE.finditer(text):
            found, line = match.group(), text.count("\n", 0, match.start()) + 1
            is_comment = found.startswith("//")
            if not is_comment and not SENTENCE.search(found):
                continue
            alone = not text[text.rfind("\n", 0, match.start()) + 1:match.start()].strip()
            if is_comment and not (alone and last == line - 1) and (opening := NO_SUBJECT.match(found)):
                problems.append(f"{name}:{line}: a comment opens with \"{opening.group(1)}\": name its subject")
            for word in UNUSUAL_WORD.findall(found):
                problems.append(f"{name}:{line}: \"{word}\": say {UNUSUAL[word.lower()]}")
            last = line + found.count("\n") if is_comment else last
    return problems


def check_format(root):
    formatter = next((found for found in map(shutil.which, FORMATTERS) if found), None)
    version = subprocess.run([formatter, "--version"], capture_output=True, text=True).stdout if formatter else "none"
    if FORMAT_VERSION not in version:
        return [f"check_style.py: clang-format 14 is needed, found {version.strip()}: run tools/setup.sh"]
    run = subprocess.run([formatter, "--dry-run", "-Werror", *code_files(root)], capture_output=True, text=True)
    files = sorted(set(re.findall(r"^(.*?):\d+:\d+: error:", run.stderr, re.MULTILINE)))
    return [f"{Path(name).relative_to(root)}: run clang-format-14 -i on it" for name in files] or \
        ([] if run.returncode == 0 else [run.stderr.strip()])


def self_test():
    """A tree with one fault of each kind, and what must be said about it."""
    long_body = "void {}() {{\n" + "  step();\n" * 59 + "}}\n"
    test = "void check() {}\n"
    tree = {
        ".clang-format": "BasedOnStyle: Google\n",
        "kernels/add.h": "void add();\n",
        "kernels/add_cpu.cpp": long_body.format("add"),  # a kernel body may have 120 lines
        "kernels/add.cu": long_body.format("__global__ __launch_bounds__(kThreads(8)) add_rows") + "\n" +
                          long_body.format("launch_add"),
        "kernels/add_tile.cuh": "int  tile();\n" + "// a line\n" * 200,
        "tests/kernels/add_test.cpp": test,
        "kernels/scale.h": "void scale();\n",
        "kernels/scale_cpu.cpp": 'void scale() { const char* brace = "{"; }\n',
        "kernels/scale.cu": test,
        "kernels/shift.h": "void shift();\n",
        "kernels/shift_cpu.cpp": test,
        "tests/kernels/shift_test.cpp": test,
        "kernels/rows/scale/plan.h": "int plan();\n",  # a part of an op, not one
        "kernels/turn.h": "void turn();\n",
        "kernels/turn.cu": test,
        "tests/kernels/turn_test.cpp": test,
        "platform/arena.h": "// a line\n" * 201,
        "platform/arena.cpp": long_body.format("Arena::take"),
        "platform/clock.cpp": "int  now() { return 0; }\n",
        "quant/frame.h": "namespace ocellus {\nstruct Frame {\n  int size;\n};\n}  // namespace ocellus\n",
        "mm/pictures/frame.h": "namespace ocellus {\nclass Frame {\n  int rows;\n};\n}  // namespace ocellus\n",
        "mm/pictures/frame.cpp": "namespace ocellus {\nnamespace {\nclass Frame {};\n}  // namespace\n}  // namespace ocellus\n",
        "mm/pictures/words.cpp": "// Of the picture.\nint rows;\n// Rows of\n// what was read.\nint left;  // whether any\n\n"
                                 "const char* text = \"no rows are gone\";  // behind the last\n",
        "apps/words.cpp": "int rows;  // of the picture\n",  # a folder that is not checked yet
        "kernels/scale_work.cuh": "struct Work {\n" + "  int a, b, c{}, d = 1;\n  Half<int, int> e;\n" * 2 +
                                  "  int sum(int x, int y) const { return x + y; }\n  static int count;\n"
                                  "  int f[2] = {}, g = max(1, 2), h;\n};\n",
        "runtime/wide.h": "class Wide {\n public:\n  Wide();\n  bool operator==(const Wide&) const;\n" +
                          "  int get(int x) const { return x; }\n" * 15 + "  void set();\n" * 16 + "};\n",
        "apps/frame.h": "namespace ocellus::app {\nstruct Frame {};\n}  // namespace ocellus::app\n",
        "README.md": "# A\n" + "a line\n" * 150,
        "apps/README.md": "# A\n\n" + "word " * 31 + "(one) and (two). Right in .930 of [cases](gone.md), see [here](#b).\n",
    }
    expected = ["kernels/scale.h: tests/kernels/scale_test.cpp is missing", "kernels/shift.h: kernels/shift.cu is missing",
                "kernels/add_tile.cuh: 201 lines", "kernels/add_tile.cuh: run clang-format-14",
                "kernels/add.cu:63: launch_add has 61 lines", "platform/arena.h: 201 lines",
                "platform/arena.cpp:1: Arena::take has 61 lines", "platform/clock.cpp: run clang-format-14",
                "mm/pictures/frame.h: ocellus::Frame stands in quant/frame.h, too",
                "mm/pictures/words.cpp:1: a comment opens with \"Of\"", "mm/pictures/words.cpp:5: a comment opens with \"whether\"",
                "mm/pictures/words.cpp:7: \"gone\": say dropped", "mm/pictures/words.cpp:7: \"behind\": say after",
                "kernels/scale_work.cuh:1: Work has 13 fields, the limit is 12",
                "runtime/wide.h:1: Wide has 31 functions, the limit is 30", "the exception for mm/gone.h:Gone",
                "the exception for quant/gone.h", "the exception for gone.h in kernels/",
                "README.md: 151 lines", "README.md:2: a sentence of 300 words", "apps/README.md:3: a sentence of 34 words",
                "apps/README.md:3: 2 parentheses", "apps/README.md:3: \".930\"", "the link to gone.md leads nowhere", "no heading for #b"]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name, text in tree.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        problems = find_problems(root, {"quant/gone.h": ""}, {}, {"gone": ""}, {"turn": (".cu", "")}, ["mm"],
                                 {"mm/gone.h:Gone": ""}, {})
    missed = [text for text in expected if not any(text in problem for problem in problems)]
    if missed or len(problems) != len(expected):
        sys.exit(f"check_style.py: self-test failed: missed {missed}, said {problems}")
    print(f"check_style.py: self-test: {len(expected)} planted faults found and nothing else")


def find_problems(root, long_files, long_functions, no_op, one_backend, plain_folders, wide_types, long_pages):
    return (check_pages(root, long_pages) + check_sizes(root, long_files, long_functions) + check_types(root, wide_types) +
            check_siblings(root, no_op, one_backend) + check_names(root) + check_sentences(root, plain_folders) + check_format(root))


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = Path(__file__).resolve().parent.parent
    problems = find_problems(root, LONG_FILES, LONG_FUNCTIONS, NO_OP, ONE_BACKEND, PLAIN_FOLDERS, WIDE_TYPES, LONG_PAGES)
    print("\n".join(problems + [f"check_style.py: {len(problems)} problems"]))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
