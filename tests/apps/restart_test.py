"""The same command in a process of its own gives the same bytes: on other threads, at other addresses, from a library."""

import itertools
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
import unittest

from program import BOARDS, OK, PROGRAM, ProgramTest, board, goldens, long

# Threads, whether addresses are random, and how far the environment pushes the stack.
PROCESSES = [(1, True, 0), (2, True, 5), (3, False, 1111), (1, True, 70000)]
SAMPLED = ["--temp", 1.5, "--top-k", 40, "--top-p", 0.98, "--min-p", 0.001, "--repeat-penalty", 1.1]


@long
class Restarts(ProgramTest):
    def output_of(self, arguments, threads, has_random_addresses, padding):
        command = [PROGRAM, *map(str, arguments), "--threads", str(threads), "--quiet"]
        if not has_random_addresses and shutil.which("setarch"):
            command = ["setarch", platform.machine(), "-R", *command]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False,
                              env={**os.environ, "PADDING": "x" * padding})
        if done.returncode != OK and command[0] == "setarch" and b"setarch" in done.stderr:
            self.skipTest("addresses cannot be fixed here")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertTrue(done.stdout.strip())
        return done.stdout

    def assert_same_everywhere(self, *arguments):
        """Returns the bytes that all processes printed."""
        outputs = {self.output_of(arguments, *process) for process in PROCESSES}
        self.assertEqual(len(outputs), 1, outputs)
        return outputs.pop()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_greedy_answers(self):
        self.assert_same_everywhere("caption", board("113"), board("063"))
        eight = next(question for question in goldens() if question["n"] == 8)
        pictures = [BOARDS / path for path in eight["images"]]
        for cache in [[], ["--kv-bits", 2], ["--evict", "value-window", "--keep", 0.5, "--kv-bits", 4]]:
            with self.subTest(cache=cache):
                self.assert_same_everywhere("ask", "--prompt", eight["prompt"], *pictures, *cache)

    def test_sampled_answers_of_one_seed(self):
        question = ["ask", "--prompt", "Describe this image.", board("113"), "-n", 60, *SAMPLED]
        answers = [self.assert_same_everywhere(*question, "--seed", seed) for seed in (1, 2**63 + 5)]
        self.assertNotEqual(*answers)

    def test_probabilities_of_a_text_to_the_last_digit(self):
        text = self.folder / "text.txt"
        text.write_text("A large red ring at the top left and a small blue star on the right. " * 20)
        outputs = [self.output_of(["perplexity", text, "--window", 128, "--json"], *process) for process in PROCESSES]
        self.assertEqual(len({tuple(json.loads(line)["nll"] for line in output.splitlines()) for output in outputs}), 1,
                         outputs)

    def test_answers_from_pictures_that_an_earlier_process_left_in_a_library(self):
        question = ["ask", "--prompt", "What is on the left?", board("113"), board("115"), "--reuse", "carry:8", "--owner", "ann"]
        for sampling in [[], [*SAMPLED, "--seed", 3]]:
            computed = self.output_of([*question, *sampling, "--library", self.folder / "first"], *PROCESSES[0])
            outputs = {self.output_of([*question, *sampling, "--library", self.folder / name], *process)
                       for name, process in itertools.product(("first", "second"), PROCESSES)}
            self.assertEqual(outputs, {computed})
        entries = [path for path in (self.folder / "first").rglob("*") if path.is_file()]
        self.assertGreater(len(entries), 1)


if __name__ == "__main__":
    unittest.main()
