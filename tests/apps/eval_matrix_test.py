"""tools/eval/run.py: a small matrix, its files, going on after a stop, what it refuses."""

import importlib.util
import json
import signal
import subprocess
import sys
import unittest

from program import BAD_INPUT, OK, PROGRAM, SOURCE, USAGE, FolderTest, long

MATRIX = SOURCE / "tools" / "eval" / "run.py"
QUESTIONS = SOURCE / "apps" / "samples" / "questions.jsonl"
CAPTIONS = SOURCE / "apps" / "samples" / "captions.json"
INTERRUPTED = 130

# Runs it with a method in front that no version of the program knows.
WITH_ODD_METHOD = f"""
import runpy, sys
sys.path[:0] = [{str(MATRIX.parent)!r}, {str(SOURCE / "apps")!r}]
import methods
methods.METHODS = {{"odd": methods.Method("--evict odd", keep=True), **methods.METHODS}}
runpy.run_path({str(MATRIX)!r}, run_name="__main__")
"""


class EvalMatrix(FolderTest):
    def command(self, *arguments):
        return [sys.executable, "-B", MATRIX, "--program", PROGRAM, "--out", "out", *map(str, arguments)]

    def small(self, *arguments, flags=()):
        """Two cells."""
        return self.command("--questions", QUESTIONS, "--images", 1, "--limit", 2, "--methods", "full,david",
                            "--keep", 0.5, "--bits", 16, *arguments, "--", "--threads", 1, *flags)

    def run_matrix(self, command):
        return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=self.folder, check=False)

    def assert_refused(self, done, exit_code, sentence):
        self.assertEqual((done.returncode, done.stdout), (exit_code, ""), done.stderr)
        self.assertRegex(done.stderr, rf"\Amatrix: .*{sentence}[^\n]*\n\Z")

    def results(self):
        return json.loads((self.folder / "out" / "results.json").read_text())

    def test_a_small_matrix_gives_json_markdown_and_plots(self):
        done = self.run_matrix(self.small("--jobs", 2))
        self.assertEqual(done.returncode, OK, done.stderr)
        results = self.results()
        full, david = sorted(results["cells"], key=lambda cell: -cell["keep"])
        self.assertEqual([full["setting"], david["setting"]], ["full, f16", "david 50 %, f16"])
        self.assertEqual(results["failures"], [])
        self.assertIn("--keep 0.5", results["command"])
        for cell in [full, david]:
            self.assertEqual((cell["pictures"], cell["questions"]), (1, 2))
            self.assertEqual(cell["kv_payload_bytes"] + cell["kv_scale_bytes"], cell["kv_bytes"])
            self.assertAlmostEqual(cell["share"], cell["kv_bytes"] / cell["kv_bytes_full"], places=4)
            self.assertEqual(sum(count for _, count in cell["by_kind"].values()), 2)
            self.assertGreater(min(cell["decode_tok_s"], cell["ttft_ms"], cell["arena_bytes"]), 0)
        self.assertEqual((full["accuracy"], full["share"]), (1, 1))
        self.assertLess(david["share"], 0.7)
        self.assertRegex(david["command"], "^ocellus eval .* --evict david --keep 0.5 --threads 1$")
        self.assertRegex(done.stderr, "1 of 2: 1 picture, ")
        markdown = (self.folder / "out" / "results.md").read_text()
        self.assertRegex(markdown, r"\| full, f16 \| 1\.000 \(100 %\) \|  \|")
        self.assertRegex(markdown, r"\| david, f16 \|  \| \d\.\d{3} \([56]\d(\.\d)? %\) \|")
        self.assertRegex(markdown, r"\n\| 3\.1 % \| .* \| nothing fits \|")
        plots = sorted(path.name for path in (self.folder / "out").glob("*.png"))
        has_matplotlib = importlib.util.find_spec("matplotlib") is not None
        self.assertEqual(plots, ["accuracy_1.png", "kinds_1.png", "speed_1.png"] if has_matplotlib else [])
        self.assertEqual("matplotlib is missing" in done.stderr, not has_matplotlib)

    def test_a_stopped_matrix_is_resumed(self):
        cells = ["--methods", "david", "--keep", "0.5,0.4,0.3,0.2,0.1"]
        with subprocess.Popen(self.small(*cells), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              cwd=self.folder) as process:
            self.assertRegex(process.stderr.readline(), "^1 of 5: ")
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, INTERRUPTED, said)
        self.assertRegex(said, "stopped; what is done is written")
        before = self.results()["cells"]
        self.assertIn(len(before), [1, 2, 3, 4])
        self.assert_refused(self.run_matrix(self.small(*cells)), USAGE, "results.json is there already: add --resume")
        done = self.run_matrix(self.small(*cells, "--resume"))
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual((self.results()["cells"][:len(before)], len(self.results()["cells"])), (before, 5))
        self.assertRegex(done.stderr, f"^1 of {5 - len(before)}: ")
        self.assert_refused(self.run_matrix(self.small(*cells, "--resume", "--limit", 1)), USAGE,
                            "results.json was made with another limit: give another --out")

    def test_a_method_that_the_program_does_not_know_is_left_out(self):
        command = self.small("--methods", "odd,full", "--limit", 1)
        command[command.index(MATRIX):command.index(MATRIX) + 1] = ["-c", WITH_ODD_METHOD]
        done = self.run_matrix(command)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(done.stderr, "matrix: 1 picture, odd 50 %, f16 is left out: --evict: there is no eviction method 'odd'")
        self.assertEqual([cell["method"] for cell in self.results()["cells"]], ["full"])
        self.assertEqual([failure["method"] for failure in self.results()["failures"]], ["odd"])

    @unittest.skipUnless(importlib.util.find_spec("pycocoevalcap"), "pycocoevalcap is missing")
    def test_captions_are_scored(self):
        done = self.run_matrix(self.small("--captions", CAPTIONS, "--methods", "full", "--limit", 3))
        self.assertEqual(done.returncode, OK, done.stderr)
        scores, = [cell for cell in self.results()["cells"] if cell["task"] == "captions"]
        self.assertEqual((scores["captions"], scores["share"]), (3, 1))
        self.assertAlmostEqual(scores["bleu_4"], 1, places=3)
        self.assertAlmostEqual(scores["rouge_l"], 1, places=3)
        self.assertAlmostEqual(scores["cider"], 10, places=3)

    @long
    def test_the_perplexity_of_a_text_is_measured_where_nothing_is_packed(self):
        text = self.folder / "text.txt"
        text.write_text((SOURCE / "README.md").read_text(encoding="utf-8")[:9000])
        done = self.run_matrix(self.command("--only-text", "--text", text, "--methods", "full,elastic", "--keep", 0.5,
                                            "--bits", "16,2", "--", "--threads", 1, "--tokens", 1200, "--window", 600))
        self.assertEqual(done.returncode, OK, done.stderr)
        full, elastic = sorted(self.results()["cells"], key=lambda cell: -cell["keep"])
        self.assertEqual([full["setting"], elastic["setting"]], ["full, f16", "elastic 50 %, f16"])
        self.assertEqual(full["share"], 1)
        self.assertAlmostEqual(elastic["share"], 0.5, delta=0.03)
        self.assertGreater(full["forced_tokens"], 200)
        self.assertNotEqual(full["perplexity"], elastic["perplexity"])
        self.assertIn("## Text", (self.folder / "out" / "results.md").read_text())

    def test_impossible_requests_are_refused_in_one_sentence(self):
        broken = self.folder / "broken.jsonl"
        broken.write_text('{"images": []}\nno JSON\n')
        (self.folder / "file").write_text("")
        for arguments, exit_code, sentence in [
                (["--program", "/none"], USAGE, "/none is no program"),
                (["--program", "/bin/true"], USAGE, "/bin/true is not the ocellus program"),
                (["--questions", "none.jsonl"], BAD_INPUT, "none.jsonl cannot be read"),
                (["--questions", broken], BAD_INPUT, "broken.jsonl, line 2: "),
                (["--images", "3"], BAD_INPUT, "there is no question with 3 pictures"),
                (["--images", "one"], USAGE, "--images: 'one' is not a list of picture counts"),
                (["--keep", "0"], USAGE, "--keep: '0' is not a list of fractions"),
                (["--bits", "3"], USAGE, "--bits: '3' is not"),
                (["--limit", "0"], USAGE, "--limit: '0' is not a count"),
                (["--methods", "none"], USAGE, "--methods: 'none' is not a list of these: full"),
                (["--out", "file/below"], USAGE, "file/below cannot be made"),
                (["--captions", "none.jsonl"], BAD_INPUT, "none.jsonl cannot be read"),
                (["--text", "none.txt"], BAD_INPUT, "none.txt cannot be read"),
                (["--only-text"], USAGE, "--only-text needs --text"),
                (["--captions", broken], BAD_INPUT, "broken.jsonl, line 1: ")]:
            self.assert_refused(self.run_matrix(self.small(*arguments)), exit_code, sentence)
        self.assert_refused(self.run_matrix(self.small(flags=["--device", "tpu"])), USAGE, "--device tpu")
        self.assert_refused(self.run_matrix(self.small(flags=["--kv-bits", 4, "--kv-bits", 4])), USAGE, "given twice")


if __name__ == "__main__":
    unittest.main()
