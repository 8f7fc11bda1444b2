#!/usr/bin/env python3
"""Runs the lines of the pages (README.md and those in the folders) as they stand: their blocks, and the commands in their
sentences.

usage: pages_test.py [TEST...]     in a source tree; tools/demo.sh, the first of the lines, builds what the others need
       pages_test.py --installed   "In your program" alone, with the packages of libocellus-dev on this system

Commands run in a scratch folder where apps/, build/ and tools/ are the tree's and pictures/ has one picture. Every line
must be run or have a reason in NOT_RUN. Where a page prints an answer, the program must give it.
"""
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "apps" / "samples"
# README.md first, as its first line builds the program.
PAGES = {str(page.relative_to(ROOT)): page.read_text() for page in
         [ROOT / "README.md", *sorted(page for folder in ("apps", "findings", "kernels", "mm", "platform", "quant", "runtime", "tests", "tools")
                                      for page in (ROOT / folder).rglob("*.md"))]}
EMBEDDING = "runtime/README.md"
INSTALLED = "--installed" in sys.argv
MODELS = Path("/usr/share/ocellus/models") if INSTALLED else ROOT / "apps" / "models"
PAIR = [str(MODELS / "shapeboard-34m-q8_0.gguf"), str(MODELS / "mmproj-shapeboard-34m-q8_0.gguf")]
PICTURE = SAMPLES / "board_01.png"
CAPTION = json.loads((SAMPLES / "captions.json").read_text())["board_01.png"]
# the beginning of a line: why it is not run here
NOT_RUN = {
    "sh tools/test.sh": "it runs this test",
    "sh tools/build.sh": "tools/test.sh runs it",
    "ctest --preset": "tools/test.sh runs it",
    "python3 tools/check_": "tools/test.sh runs it",
    "python3 -m venv .venv": "it builds for minutes; wheel.sh and tests/python/run.sh build and test the same",
    "sh tools/package/wheel.sh": "it builds for minutes, on Debian 12",
    "pip install build/wheel": "it needs the wheel of the line before",
    "pip install -r requirements.txt": "training takes a GPU",
    "pip install -r tools/eval/lmms/requirements.txt": "it takes 7 GB; lmms_test.py installs them",
    "python3 tools/eval/lmms/run.py": "it needs lmms-eval; lmms_test.py runs it",
    "python3 tools/eval/lmms/score.py": "it reads what a line before has written; lmms_task_test.py runs it",
    "python3 -m lmms_eval": "it loads a benchmark from Hugging Face",
    "ocellus serve -hf": "it needs the model of a line before",
    "python train.py": "training takes a GPU",
    "python export.py": "it needs a training",
    "python ../convert": "it needs a training; convert_test.py runs the converter",
    "python make_eval.py": "it needs torch; its questions are in apps/samples and tests/data",
    "python goldens.py": "it needs a training",
    "ocellus pull": "it loads half a gigabyte from Hugging Face; pull_test.py pulls from a hub of its own",
    "ocellus caption -hf": "it needs what was pulled before",
    "gst-launch-1.0": "the user's own source stands in the place of SOURCE",
    "ocellus watch /dev/video0": "it needs a camera",
    "ocellus watch browser": "it waits for a person who opens the page; page_test runs it in a browser",
    "ffmpeg -i ...": "the user's own source stands in the place of the dots",
    "ocellus calibrate --layer-bits": "it names an option, not a whole line; library_test and cli_test calibrate",
}
INSTALL = "cmake --install build/release --prefix DIR"
PACK = "cpack -G DEB"
PROJECT = """cmake_minimum_required(VERSION 3.16)
project(camera LANGUAGES CXX)
add_executable(camera camera.cpp)
"""


TYPED = r"(sh|ocellus|ffmpeg|gst-launch-1\.0|cc|hf|python3?|ctest|pip) "


def blocks(page=None):
    """(language, lines) of every fenced block of a page, or of all."""
    return [(language, text.splitlines()) for name in ([page] if page else PAGES) for language, text in
            re.findall(r"^```(\w*)\n(.*?)^```$", PAGES[name], re.MULTILINE | re.DOTALL)]


def shell_lines():
    """The lines of blocks that are typed into a shell, without answers, comments after them and what is not run."""
    lines = []
    for language, block in blocks():
        if language == "" and not block[0].startswith("$ "):
            lines += [line for line in block if re.match(TYPED, line)]
    return [line for line in lines if not any(line.startswith(start) for start in NOT_RUN)]


def transcripts():
    """(command, what the page prints below it) of every `$ ` line."""
    found = []
    for language, block in blocks():
        for line in block if language == "" and block[0].startswith("$ ") else []:
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def commands_in_sentences():
    """`ocellus ...` and `plan ...` with an option, once for each of A|B|C; the name of the program is put before."""
    text = "\n".join(re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL) for page in PAGES.values())
    for span in re.findall(r"`((?:ocellus|plan) [^`]*)`", text):
        if " --" in span and not any(span.startswith(start) for start in NOT_RUN):
            words = re.search(r"\S*\|\S*", span)
            for word in words.group().split("|") if words else [""]:
                yield re.sub(r"^plan", "ocellus plan", span.replace(words.group(), word) if words else span)


def embedding_lines():
    """The lines for CMake and those for a compiler, of the block that begins with find_package."""
    (lines,) = [block for _, block in blocks(EMBEDDING) if block[0].startswith("find_package")]
    return [line for line in lines if line.startswith(("find_package", "target_"))], \
        [line for line in lines if line.startswith("cc ")]


def squeeze(text):
    return " ".join(text.split())


class PagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = Path(cls.folder.name)
        for name in ("apps", "build", "tools"):
            (cls.work / name).symlink_to(ROOT / name)
        (cls.work / "pictures").mkdir()
        (cls.work / "pictures" / PICTURE.name).symlink_to(PICTURE)
        cls.environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "",
                           "PATH": f"{ROOT}/build/release/apps:{os.environ['PATH']}"}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def shell(self, line, cwd=None, **environment):
        """What a line prints, both streams together; it must exit with 0."""
        print("pages:", line.split("  #")[0].rstrip(), flush=True)
        done = subprocess.run(["bash", "-c", line], cwd=cwd or self.work, env={**self.environment, **environment},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=3600, check=False)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}")
        return done.stdout

    def check_answer(self, line, printed, wanted):
        """`...` stands for anything; line breaks are the page's own."""
        pattern = ".*".join(re.escape(squeeze(part)) for part in re.split(r"^\.\.\.$", wanted, flags=re.MULTILINE))
        pattern = re.sub(r"\b[0-9a-f]{32}\b", "[0-9a-f]{32}", pattern)  # keys are drawn by lot
        self.assertRegex(squeeze(printed), re.compile(rf"\A{pattern}\Z", re.DOTALL), line)

    def embed(self, **environment):
        """Makes programs out of the example and of the lines below it, and expects the right caption of each."""
        for_cmake, for_compilers = embedding_lines()
        self.assertEqual(len(for_cmake), 2)
        (example,) = [block for language, block in blocks("README.md") if language == "cpp"]
        source = self.work / "camera"
        source.mkdir()
        (source / "camera.cpp").write_text("\n".join(example) + "\n")
        (source / "camera.c").symlink_to(ROOT / "apps" / "examples" / "caption.c")
        arguments = shlex.join([*PAIR, str(PICTURE)])
        for target in ("ocellus::ocellus", "ocellus::shared"):
            project = PROJECT + "\n".join(for_cmake).replace("ocellus::ocellus)", target + ")") + "\n"
            (source / "CMakeLists.txt").write_text(project)
            self.shell("cmake -B build && cmake --build build", cwd=source, **environment)
            self.assertEqual(squeeze(self.shell(f"build/camera {arguments}", cwd=source, **environment)), CAPTION)
        for line in for_compilers:
            for package in ("ocellus", "ocellus-static"):
                line = re.sub(r"ocellus\)", package + ")", line)
                self.shell(line, cwd=source, **environment)
                self.assertEqual(squeeze(self.shell(f"./a.out {arguments}", cwd=source, **environment)), CAPTION)


@unittest.skipIf(INSTALLED, "the tree's own lines")
class TreeTest(PagesTest):
    """In the order in which a reader meets them."""

    def test_1_every_line_that_is_typed_into_a_shell_runs(self):
        lines = [line for line in shell_lines() if not line.startswith("cc ")]
        self.assertIn("sh tools/demo.sh", lines[0])
        for line in lines:
            if line.startswith("ocellus serve"):
                self.serve(line)
            else:
                self.shell(line, cwd=self.work if line.startswith(("ocellus ", "ffmpeg ")) else ROOT)

    def test_2_the_build_of_the_demo_can_be_installed_and_used(self):
        self.assertIn(f"`{INSTALL}`", squeeze(PAGES[EMBEDDING]))
        prefix = self.work / "DIR"
        self.shell(INSTALL)
        caption = self.shell(f"env -i {prefix}/bin/ocellus caption --quiet {shlex.quote(str(PICTURE))}")
        self.assertEqual(squeeze(caption), CAPTION)
        (found,) = prefix.rglob("ocellus.pc")
        self.embed(CMAKE_PREFIX_PATH=str(prefix), PKG_CONFIG_PATH=str(found.parent),
                   LD_LIBRARY_PATH=str(found.parent.parent))

    def test_3_the_build_of_the_demo_can_be_packed(self):
        self.assertIn(f"`{PACK}` makes in `build/release`", squeeze(PAGES[EMBEDDING]))
        self.assertEqual(self.shell(PACK, cwd=ROOT / "build" / "release").count("generated"), 3)

    def test_4_every_answer_is_the_one_that_the_program_gives(self):
        for line, wanted in transcripts():
            with self.subTest(line):
                self.check_answer(line, self.shell(line), "\n".join(wanted))

    def test_5_the_commands_in_sentences_run(self):
        for line in commands_in_sentences():
            with self.subTest(line):
                if line.startswith("ocellus serve"):
                    self.serve(line)
                else:
                    self.shell(line)

    def test_7_the_models_that_it_reads_are_those_of_the_sources(self):
        models = ROOT / "runtime" / "models"
        sources = "".join(path.read_text() for path in sorted(models.glob("*.cpp")))
        architectures = re.findall(r'\{\.name = "(.+?)"', (models / "text_architecture.h").read_text())
        projectors = re.findall(r'(?:\.projector = |qwen_family\("\S+", )"(.+?)"', sources)
        for row, names in (("text models", architectures), ("vision", projectors)):
            with self.subTest(row=row):
                (line,) = re.findall(rf"^\| {row} \| (.+) \|$", PAGES["runtime/models/README.md"], re.MULTILINE)
                named = {name for name in re.findall(r"`(.+?)`", line) if not name.startswith("--")}
                self.assertEqual(named, set(names))

    def test_8_the_pairs_that_cannot_be_are_those_of_the_program(self):
        partners = {}
        for pair in json.loads(self.shell("ocellus methods --json"))["pairs"]:
            partners.setdefault(pair["one"], []).append(pair["other"])
        rows = "".join(f"| {one} | {'; '.join(others)} |\n" for one, others in partners.items())
        self.assertIn(f"| not | with |\n|---|---|\n{rows}\n", PAGES["runtime/policy/README.md"], f"the table is:\n{rows}")

    def test_6_commands_that_are_not_run_exist_and_have_a_reason(self):
        for start in NOT_RUN:
            self.assertTrue(any(start in page for page in PAGES.values()), f"NOT_RUN names a line that no page has: {start}")

    def serve(self, line):
        host, port = re.search(r"--http (\S+):(\d+)", line).groups()
        with socket.socket() as taken:
            if taken.connect_ex((host, int(port))) == 0:
                self.skipTest(f"{host}:{port} is taken on this machine")
        print("pages:", line, flush=True)
        with subprocess.Popen(line.split(), env=self.environment, cwd=self.work, stdin=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as server:
            try:
                for _ in range(300):
                    try:
                        with urllib.request.urlopen(f"http://{host}:{port}/v1/models", timeout=10) as reply:
                            self.assertTrue(json.load(reply)["data"])
                        break
                    except OSError:
                        self.assertIsNone(server.poll(), "the server has ended")
                        time.sleep(0.1)
                else:
                    self.fail("the server does not answer")
            finally:
                server.send_signal(signal.SIGINT)
        self.assertEqual(server.returncode, 0)


@unittest.skipUnless(INSTALLED, "of an installation")
class InstalledTest(PagesTest):
    def test_with_the_packages_nothing_has_to_be_said_about_where_they_are(self):
        self.embed()


if __name__ == "__main__":
    unittest.main(argv=[word for word in sys.argv if word != "--installed"], verbosity=1)
