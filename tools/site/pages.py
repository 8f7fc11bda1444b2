#!/usr/bin/env python3
"""Lays out the sources of the site: the pages of the tree as one hierarchy, the reference of the C and C++ API, the Python
package if there is one, notebooks, and the files that pages name.

usage: pages.py DOXYGEN_XML OUT
       pages.py --self-test    what a page becomes in the site
"""
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from page_style import CODE, FENCE, list_pages  # noqa: E402
from reference import write_reference  # noqa: E402

# groups of the contents: folders whose pages stand there, in this order; the longest folder wins
GROUPS = {
    "Use": ["apps", "apps/watch", "apps/serve", "apps/models", "apps/samples"],
    "Python": ["apps/python", "apps/python/notebooks", "apps/python/api"],
    "Embed": ["runtime", "runtime/policy", "runtime/branches/library", "runtime/models", "reference"],
    "Results": ["tools/bench/notes"],
    "Contribute": ["tests", "kernels", "findings", "tools", "mm", "platform", "quant"],
}
PYTHON = "apps/python"
PYTHON_API = f"{PYTHON}/api/ocellus/index.rst"
TITLES = {PYTHON_API: "Reference of the package <{}>"}  # in the contents, where it is another than the page's
PYTHON_FIRST = ["_engine", "_session", "_answer", "_pictures", "_plan", "_model"]  # what a reader wants first; records come last
LINK = re.compile(r"(\[[^]\n]*\])\(([^)\s]+)\)")
TYPED = re.compile(r"(sh|ocellus|ffmpeg|gst-launch-1\.0|cc|hf|python3?|ctest|pip|cmake|curl) ")
LANGUAGES = {".cu": "cpp", ".cuh": "cpp", ".h": "cpp", ".hpp": "cpp", ".cpp": "cpp", ".c": "c", ".py": "python", ".sh": "sh",
             ".json": "json", ".cmake": "cmake", ".css": "css", ".js": "js", ".html": "html", ".service": "ini", ".pyi": "python"}
LISTED = {"apps/examples"}  # folders whose name becomes a link to a list of their files
MOST_HIGHLIGHTED = 300_000  # bytes of a file that is shown in colours


def site_name(path):
    """Where a page of the tree stands in the site: a README is its folder's first page."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", path)


def list_files():
    run = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if run.returncode == 0 and run.stdout:
        return {name for name in run.stdout.splitlines() if (ROOT / name).is_file()}
    return {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file() and "build" not in path.parts}


def relative(target, page):
    return os.path.relpath(target, os.path.dirname(page) or ".")


class Site:
    def __init__(self, names, out):
        self.out = out
        self.names = names    # of the C API: (role, target)
        self.pages = list_pages(ROOT)
        self.files = list_files()
        self.by_name = {}
        for file in self.files:
            self.by_name.setdefault(file.rsplit("/", 1)[-1], []).append(file)
        self.shown = {}       # file or folder: its page, None if it is no text
        self.children = {}    # page of the site: pages below it
        self.groups = {group: [] for group in GROUPS}

    def write(self, path, text):
        (self.out / path).parent.mkdir(parents=True, exist_ok=True)
        (self.out / path).write_text(text, encoding="utf-8")

    # ---- files that pages name ----

    def list_folder(self, path):
        return sorted(file for file in self.files if file.startswith(f"{path}/"))

    def find_file(self, span, page):
        """The file that a word of a page names: from its folder, from the root, or the only one of that name."""
        for start in (os.path.dirname(page), ""):
            path = os.path.normpath(os.path.join(start, span))
            if path in self.files or f"{path}/README.md" in self.files or path in LISTED:
                return path
        same_name = [file for file in self.by_name.get(span.rsplit("/", 1)[-1], []) if file.endswith("/" + span)]
        return same_name[0] if len(same_name) == 1 and "." in span else None

    def show_file(self, path):
        """The page of a file or folder, or None for what is no text."""
        header = path.removeprefix("runtime/")
        if header in self.names:
            return f"reference/{header}.rst"
        if path.endswith(".ipynb"):
            return path.replace(".ipynb", ".md")
        if f"{path}/README.md" in self.files:
            return site_name(f"{path}/README.md")
        if path in self.pages:
            return site_name(path)
        if path not in self.shown:
            self.shown[path] = f"source/{path}.rst"
            text = self.quote_file(path) if path in self.files else self.name_files(path)
            if text:
                self.write(self.shown[path], f":orphan:\n:nosearch:\n\n{path}\n{'=' * len(path)}\n\n{text}")
            else:
                self.shown[path] = None
        return self.shown[path]

    def quote_file(self, path):
        content = (ROOT / path).read_bytes()
        if b"\0" in content[:4096]:
            return ""
        language = LANGUAGES.get(os.path.splitext(path)[1], "text") if len(content) < MOST_HIGHLIGHTED else "text"
        return f".. literalinclude:: {relative(ROOT / path, self.out / 'source' / path)}\n   :language: {language}\n   :force:\n   :linenos:\n"

    def name_files(self, folder):
        lines = []
        for file in self.list_folder(folder):
            name, target = file.removeprefix(f"{folder}/"), self.show_file(file)
            lines.append(f"* :doc:`{name} </{os.path.splitext(target)[0]}>`" if target else f"* {name}")
        return "\n".join(lines) + "\n"

    # ---- what the site says otherwise than the tree ----

    def link_span(self, match, page):
        """Code in a sentence: a name of the API or a file becomes a link."""
        span = match.group()[1:-1]
        if match.start() and match.string[match.start() - 1] == "[":  # already one
            return match.group()
        if place := self.names.get(span.removesuffix("()")):
            return f"{{{place[0]}}}`{span} <{place[1]}>`" if place[0] != "doc" else f"[`{span}`]({relative(place[1][1:] + '.rst', page)})"
        file = self.find_file(span, page) if re.fullmatch(r"[\w.][\w./-]*", span) else None
        target = self.show_file(file) if file and file != page else None
        return f"[`{span}`]({relative(target, site_name(page))})" if target else match.group()

    def follow_link(self, match, page):
        text, (path, *anchor) = match.group(1), match.group(2).split("#")
        if re.match(r"[a-z]+:", path) or not path:
            return match.group()
        file = os.path.normpath(os.path.join(os.path.dirname(page), path))
        target = self.show_file(file)
        if target is None:  # a picture, a model: itself
            shutil.copyfile(ROOT / file, self.place(file))
            target = file
        return f"{text}({relative(target, site_name(page))}{''.join('#' + word for word in anchor)})"

    def place(self, file):
        (self.out / file).parent.mkdir(parents=True, exist_ok=True)
        return self.out / file

    @staticmethod
    def name_language(match):
        """The language of a block that names none."""
        text = match.group()
        first = text.split("\n")[1]
        if not text.startswith("```\n"):
            return text
        language = "console" if first.startswith("$ ") else "sh" if first.startswith("find_package") or TYPED.match(first) else "text"
        return text.replace("```\n", f"```{language}\n", 1)

    def convert(self, text, page):
        """A page as the site has it."""
        def convert_line(line):
            if line.startswith("#"):
                return line
            if image := re.match(r"!\[[^]]*\]\(([^)]+)\)$", line):
                file = os.path.normpath(os.path.join(os.path.dirname(page), image.group(1)))
                shutil.copyfile(ROOT / file, self.place(file))
                return line.replace(image.group(1), relative(file, site_name(page)))
            line = LINK.sub(lambda link: self.follow_link(link, page), line)
            return CODE.sub(lambda span: self.link_span(span, page), line)
        converted, end = [], 0
        for block in FENCE.finditer(text):
            converted += map(convert_line, text[end:block.start()].split("\n")[:-1])
            converted.append(self.name_language(block))
            end = block.end() + 1
        return "\n".join(converted + [convert_line(line) for line in text[end:].split("\n")])

    # ---- notebooks ----

    def convert_notebook(self, path):
        """A notebook as a page; with its outputs if tools/notebooks.sh has run these cells."""
        cells = json.loads((ROOT / path).read_text())["cells"]
        run = ROOT / "build" / "notebooks" / Path(path).name
        if run.is_file():
            outputs = json.loads(run.read_text())["cells"]
            if [cell["source"] for cell in outputs] == [cell["source"] for cell in cells]:
                cells = outputs
        parts = []
        for number, cell in enumerate(cells):
            source = "".join(cell["source"])
            parts.append(self.convert(source, path) if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
            parts += [shown for output in self.join_printed(cell.get("outputs", [])) if (shown := self.convert_output(output, path, number))]
        return "\n\n".join(parts) + "\n"

    @staticmethod
    def join_printed(outputs):
        """The outputs of a cell; what it printed comes in pieces."""
        joined = []
        for output in outputs:
            if joined and output["output_type"] == joined[-1]["output_type"] == "stream":
                joined[-1]["text"] = "".join(joined[-1]["text"]) + "".join(output["text"])
            else:
                joined.append(dict(output))
        return joined

    def convert_output(self, output, path, number):
        data = output.get("data", {"text/plain": output.get("text", "")})
        if "image/png" in data:
            image = path.replace(".ipynb", f"_{number}.png")
            self.place(image).write_bytes(base64.b64decode("".join(data["image/png"])))
            return f"![what the cell shows]({Path(image).name})"
        if "text/html" in data:
            return f"```{{raw}} html\n<div class=\"cell-output\">{''.join(data['text/html'])}</div>\n```"
        text = "".join(data.get("text/plain", "")).rstrip()
        return f"```{{code-block}} text\n:class: cell-output\n\n{text}\n```" if text else ""

    def copy_package(self):
        """The Python package beside the pages, with the module that a build makes of the headers; AutoAPI reads it there."""
        folder, package = ROOT / PYTHON, self.out.parent / "package" / "ocellus"
        if not (folder / "ocellus" / "__init__.py").is_file():
            return False
        shutil.copytree(folder / "ocellus", package, dirs_exist_ok=True)
        start = package / "__init__.py"
        imports = re.findall(r"^from \.\w+ import (?:\([^)]*\)|.*)\n", start.read_text(), re.MULTILINE)
        first = [line for name in PYTHON_FIRST for line in imports if line.startswith(f"from .{name} ")]
        last = [line for line in imports if line not in first]  # the order of the imports is that of the reference
        start.write_text(re.sub(re.escape("".join(imports)), lambda _: "".join(first + last[::-1]), start.read_text()))
        subprocess.run([sys.executable, "-B", folder / "generate_abi.py", ROOT / "runtime", package / "_abi.py"], check=True)
        return True

    # ---- the hierarchy ----

    def group_of(self, path):
        folders = [(folder, group) for group, own in GROUPS.items() for folder in own if f"{path}/".startswith(f"{folder}/")]
        if not folders:
            raise SystemExit(f"tools/site/pages.py: {path}/ has pages, but GROUPS does not say where they belong")
        return max(folders, key=lambda pair: len(pair[0]))[1]

    def order(self, pages, group):
        """As GROUPS names their folders, then by name, the first page of a folder first."""
        def rank(page):
            places = [number for number, folder in enumerate(GROUPS[group]) if page.startswith(f"{folder}/")]
            return places[-1] if places else len(GROUPS[group]), page.replace("index.", " ")
        return sorted(pages, key=rank)

    def attach(self, path):
        """Puts a page below the first page of its folder; first pages, and those without one, into their group."""
        folder = os.path.dirname(path)
        parent = f"{folder}/index.md"
        if path != parent and parent in self.placed:
            self.children.setdefault(parent, []).append(path)
        else:
            self.groups[self.group_of(folder)].append(path)

    def toctree(self, page, pages, caption=""):
        names = "\n".join(TITLES.get(one, "{}").format(relative(os.path.splitext(one)[0], page)) for one in pages)
        return f"\n```{{toctree}}\n:hidden:\n{':caption: ' + caption if caption else ''}\n\n{names}\n```\n"

    def build(self):
        notebooks = sorted(file for file in self.files if file.startswith(f"{PYTHON}/") and file.endswith(".ipynb"))
        texts = {site_name(page): self.convert((ROOT / page).read_text(encoding="utf-8"), page) for page in self.pages}
        texts |= {path.replace(".ipynb", ".md"): self.convert_notebook(path) for path in notebooks}
        self.placed = set(texts)
        for path in texts:
            if path != "index.md":
                self.attach(path)
        self.groups["Embed"].append("reference/index.rst")
        if self.copy_package():
            self.groups["Python"].append(PYTHON_API)
        for path, text in texts.items():
            own = sorted(self.children.get(path, []), key=lambda child: (text.find(f"]({os.path.basename(child)}"), child))
            self.write(path, text + (self.toctree(path, own) if own else ""))
        with open(self.out / "index.md", "a", encoding="utf-8") as index:
            index.write("".join(self.toctree("index.md", self.order(pages, group), group) for group, pages in self.groups.items() if pages))


def self_test():
    """(page, what stands in it, what the site has)"""
    names = {"ocellus_plan_memory": ("c:func", "ocellus_plan_memory"), "ocellus.h": ("doc", "/reference/ocellus.h")}
    cases = [
        ("README.md", "[a](runtime/README.md#glossary)", "[a](runtime/index.md#glossary)"),
        ("apps/README.md", "[a](serve/README.md), [b](https://example.org)", "[a](serve/index.md), [b](https://example.org)"),
        ("runtime/README.md", "`ocellus_plan_memory()`", "{c:func}`ocellus_plan_memory() <ocellus_plan_memory>`"),
        ("README.md", "`runtime/ocellus.h`", "[`runtime/ocellus.h`](reference/ocellus.h.rst)"),
        ("tests/README.md", "`../tools/fuzz.py`", "[`../tools/fuzz.py`](../source/tools/fuzz.py.rst)"),
        ("README.md", "`decode_step.cpp`", "[`decode_step.cpp`](source/runtime/forward/decode_step.cpp.rst)"),
        ("README.md", "[`x`](apps/README.md) `tools/nothing.py` `int`", "[`x`](apps/index.md) `tools/nothing.py` `int`"),
        ("README.md", "`apps/examples/` `runtime/`", "[`apps/examples/`](source/apps/examples.rst) [`runtime/`](runtime/index.md)"),
        ("README.md", "`kernels/linear/`", "`kernels/linear/`"),
        ("README.md", "# `tools/fuzz.py`", "# `tools/fuzz.py`"),
        ("README.md", "![a](tools/architecture.svg)", "![a](tools/architecture.svg)"),
        ("apps/README.md", "a\n```\n$ ocellus\n`x`\n```\nb", "a\n```console\n$ ocellus\n`x`\n```\nb"),
        ("README.md", "```\nsh tools/test.sh\n```\n", "```sh\nsh tools/test.sh\n```\n"),
        ("README.md", "```cpp\nint a;\n```\n", "```cpp\nint a;\n```\n"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        site = Site(names, Path(folder))
        for page, text, wanted in cases:
            if (converted := site.convert(text, page)) != wanted:
                sys.exit(f"pages.py: self-test: {text!r} in {page} becomes {converted!r}, not {wanted!r}")
        for file in ("source/tools/fuzz.py.rst", "tools/architecture.svg"):
            if not (Path(folder) / file).is_file():
                sys.exit(f"pages.py: self-test: {file} was not written")
    printed = site.join_printed([{"output_type": "stream", "text": "a"}, {"output_type": "stream", "text": ["b", "c"]}])
    if [output["text"] for output in printed] != ["abc"]:
        sys.exit(f"pages.py: self-test: printed text became {printed}")
    print(f"pages.py: self-test: {len(cases) + 1} cases")


def main():
    if sys.argv[1] == "--self-test":
        self_test()
        return
    xml_folder, out = sys.argv[1], Path(sys.argv[2]).resolve()
    shutil.rmtree(out, ignore_errors=True)
    Site(write_reference(xml_folder, ROOT / "runtime", out / "reference"), out).build()


if __name__ == "__main__":
    main()
