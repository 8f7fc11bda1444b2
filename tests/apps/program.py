"""Runs the ocellus program for the tests beside this file."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

# What a script starts in the background ignores it, and so would the programs that are interrupted here.
signal.signal(signal.SIGINT, signal.default_int_handler)

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("OCELLUS_PROGRAM", str(SOURCE / "build" / "release" / "apps" / "ocellus"))
MODEL = SOURCE / "apps" / "models" / "shapeboard-34m-q8_0.gguf"
MMPROJ = SOURCE / "apps" / "models" / "mmproj-shapeboard-34m-q8_0.gguf"
# For tests that take too long in a build with sanitizers, whose every step takes ten times as long.
long = unittest.skipIf(os.environ.get("OCELLUS_SANITIZED") == "1", "takes minutes under sanitizers")
# A build without libwebp refuses WebP by its name.
needs_webp = unittest.skipIf(os.environ.get("OCELLUS_WITHOUT_WEBP") == "1", "this build does not decode WebP")
BOARDS = SOURCE / "tests" / "data" / "shapeboard"

OK, RUNTIME, USAGE, OVER_BUDGET, BAD_INPUT = range(5)
GREEN_STAR = ("A large green star at the top left, a large green diamond at the top, a large cyan circle at the top "
              "right and a sign reading 165 at the bottom right, on a gray background.")


def board(name):
    return str(BOARDS / "images" / f"{name}.png")


def goldens():
    return json.loads((BOARDS / "goldens.json").read_text())


def without_progress(stderr):
    """What else was written. A slow machine takes longer than a second for what others do at once."""
    return re.sub(r"^ocellus: [^\n]+: \d+ %, [^\n]*\n", "", stderr, flags=re.MULTILINE)


def run(*arguments, stdin="", limit_s=120):
    """Returns the finished process with text output, stderr without progress. A program that hangs fails the test."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          timeout=limit_s, check=False)
    done.stderr = without_progress(done.stderr)
    return done


HAS_HTTP = "no HTTP server" not in run("serve", "--http", "x").stderr
# For tests of the page and of `serve`, which a build without libmicrohttpd cannot have.
needs_http = unittest.skipUnless(HAS_HTTP, "this build has no HTTP server")


def memory_kb(process, name):
    """What the system says of the process's memory now: VmRSS, VmHWM (the most so far) and the like."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)[1])


class ProgramTest(unittest.TestCase):
    def assert_refused(self, arguments, exit_code, sentence, stdin=""):
        """Exit code, nothing on stdout, and one sentence on stderr that matches the pattern."""
        done = run(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Aocellus: [^\n]+\.\n\Z")
        self.assertRegex(done.stderr, sentence)

    def answer(self, *arguments, stdin=""):
        done = run(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done.stdout

    def objects(self, *arguments, stdin=""):
        return [json.loads(line) for line in self.answer(*arguments, "--json", stdin=stdin).splitlines()]


class FolderTest(ProgramTest):
    """With a folder that goes when the test is over."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def changed_model(self, old, new):
        """The arguments for the bundled pair with the only place of some bytes changed; the length stays."""
        content = MODEL.read_bytes()
        self.assertEqual((content.count(old), len(old)), (1, len(new)))
        path = self.folder / "changed.gguf"
        path.write_bytes(content.replace(old, new))
        return ["-m", str(path), "--mmproj", str(MMPROJ)]
