"""tools/eval/lmms without lmms-eval: the task is the samples' questions, `serve` reads its messages as `eval` reads the
questions, and score.py reads what lmms-eval writes. lmms_test.py runs the whole."""

import importlib
import json
import pathlib
import re
import subprocess
import sys
import unittest

from program import BAD_INPUT, OK, PROGRAM, RUNTIME, SOURCE, USAGE, FolderTest, long, needs_http
from server import Server, image_part

LMMS = SOURCE / "tools" / "eval" / "lmms"
SAMPLES = SOURCE / "apps" / "samples"
QUESTIONS = SAMPLES / "questions.jsonl"
sys.path.insert(0, str(LMMS))
boards = importlib.import_module("boards")


def rows():
    return [json.loads(line) for line in QUESTIONS.read_text().splitlines()]


def messages_of(row):
    return boards.messages_of(row, {"folder": SAMPLES})


class Task(unittest.TestCase):
    def test_the_task_names_functions_and_files_that_are_there(self):
        task = (LMMS / "boards.yaml").read_text()
        functions = re.findall(r"^(\w+): !function boards\.(\w+)$", task, re.MULTILINE)
        self.assertEqual([field for field, _ in functions], ["doc_to_messages", "doc_to_text", "process_results"])
        for _, name in functions:
            self.assertTrue(callable(getattr(boards, name)), name)
        self.assertEqual((LMMS / re.search(r"^ +test: (\S+)$", task, re.MULTILINE)[1]).resolve(), QUESTIONS)
        self.assertEqual((LMMS / re.search(r"^ +folder: (\S+)$", task, re.MULTILINE)[1]).resolve(), SAMPLES)
        self.assertEqual(re.findall(r"^ +- metric: (\w+)$", task, re.MULTILINE),
                         list(boards.results_of({"answer": "One."}, ["One."])))

    def test_messages_are_the_questions_with_each_picture_at_its_mark(self):
        for row in rows():
            (message,) = messages_of(row)
            pictures = [part["url"] for part in message["content"] if part["type"] == "image"]
            self.assertEqual(pictures, [str(SAMPLES / image) for image in row["images"]])
            self.assertTrue(all(pathlib.Path(picture).is_file() for picture in pictures), pictures)
            again = "".join(part.get("text", "<image>") for part in message["content"])
            self.assertEqual((message["role"], again), ("user", row["prompt"]))

    def test_a_single_picture_needs_no_mark_and_several_need_one_each(self):
        (message,) = boards.messages_of({"images": ["a.png"], "prompt": "What?"}, {"folder": "/x"})
        self.assertEqual(message["content"], [{"type": "image", "url": "/x/a.png"}, {"type": "text", "text": "What?"}])
        (message,) = boards.messages_of({"images": ["a.png", "b.png"], "prompt": "<image>\n<image>"}, {"folder": "/x"})
        self.assertEqual([part.get("text") for part in message["content"]], [None, "\n", None])
        for prompt in ["What?", "<image>What?", "<image><image><image>"]:
            with self.subTest(prompt), self.assertRaisesRegex(ValueError, "the question 2 pictures"):
                boards.messages_of({"images": ["a.png", "b.png"], "prompt": prompt}, {"folder": "/x"})

    def test_answers_count_as_in_eval_and_failures_are_told(self):
        for answer, exact, failed in [(" One.\n", 1, 0), ("one.", 0, 0), ("", 0, 0),
                                      ("[LMMS_EVAL_REQUEST_FAILED after 1 retries] Connection error.", 0, 1)]:
            with self.subTest(answer):
                self.assertEqual(boards.results_of({"answer": "One. "}, [answer]), {"exact": exact, "failed": failed})


@long
@needs_http
class Prompts(FolderTest):
    def test_serve_reads_and_answers_what_eval_does(self):
        """One question about one picture, one about four, one about eight."""
        asked = [next(row for row in rows() if row["n"] == count) for count in (1, 4, 8)]
        questions = self.folder / "questions.jsonl"
        questions.write_text("".join(
            json.dumps({**row, "images": [str(SAMPLES / image) for image in row["images"]]}) + "\n" for row in asked))
        server = Server("--images", 8, "--sessions", 1)
        self.addCleanup(server.stop)
        for row, wanted in zip(asked, self.objects("eval", questions, "--quiet")):
            content = [image_part(part["url"]) if part["type"] == "image" else part for part in messages_of(row)[0]["content"]]
            status, answer = server.post({"messages": [{"role": "user", "content": content}], "temperature": 0})
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["choices"][0]["message"]["content"], wanted["answer"])
            self.assertEqual(answer["usage"]["prompt_tokens"], wanted["prompt_tokens"])


def sample(number, value, answer="x", metric="exact", **fields):
    return {"doc_id": number, "target": "t", "filtered_resps": answer, "doc_hash": "same", "input": f"q{number}", metric: value, **fields}


class Scores(FolderTest):
    def write(self, name, samples):
        path = self.folder / name
        path.write_text("".join(json.dumps(one) + "\n" for one in samples))
        return str(path)

    def score(self, *arguments):
        return subprocess.run([sys.executable, "-B", LMMS / "score.py", *arguments], capture_output=True, text=True, check=False)

    def assert_score(self, arguments, *lines):
        done = self.score(*arguments)
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        for line in lines:
            self.assertIn(line, done.stdout)

    def refuse(self, arguments, exit_code, sentence):
        done = self.score(*arguments)
        self.assertEqual((done.returncode, done.stdout), (exit_code, ""), done.stderr)
        self.assertRegex(done.stderr, rf"\Ascore: {sentence}[^\n]*\.\n\Z")

    def test_right_and_wrong_have_wilsons_interval(self):
        path = self.write("a", [sample(k, float(k < 8)) for k in range(10)])
        self.assert_score([path], "exact 80.0 % of 10 questions, 95 %: 49.0 to 94.3 %")
        path = self.write("b", [sample(k, 1) for k in range(24)])
        self.assert_score([path], "exact 100.0 % of 24 questions, 95 %: 86.2 to 100.0 %")

    def test_other_values_have_the_means(self):
        path = self.write("a", [sample(k, value) for k, value in enumerate([0.3, 0.6, 0.9, 1.0])])
        self.assert_score([path], "exact 70.0 % of 4 questions, 95 %: 39.0 to 101.0 %")

    def test_a_metric_is_chosen_and_may_be_an_object_with_a_score(self):
        rows = [sample(k, {"score": k % 2, "category": "c"}, metric="acc", **{f"of_{k}": 1}) for k in range(4)]
        path = self.write("a", [{**row, "other": 1} for row in rows])
        self.assert_score([path], "acc 50.0 % of 4 questions")
        self.assert_score([path, "--metric", "other"], "other 100.0 % of 4 questions")
        self.refuse([path, "--metric", "of_0"], BAD_INPUT, ".* has no metric of_0 of all questions; it has: acc, other")

    def test_two_runs_are_compared_question_by_question(self):
        first = self.write("a", [sample(k, float(k >= 12)) for k in range(100)])
        second = self.write("b", [sample(k, float(k >= 10 and k < 98)) for k in reversed(range(100))])
        self.assert_score([first, second], "exact 88.0 % of 100", "second minus first: +0.0 points, 95 %: -3.9 to +3.9",
                          "better on 2, worse on 2, equal on 96; sign test p = 1")
        third = self.write("c", [sample(k, float(k >= 22)) for k in range(100)])
        self.assert_score([first, third], "second minus first: -10.0 points, 95 %: -15.9 to -4.1",
                          "better on 0, worse on 10, equal on 90; sign test p = 0.00195")
        self.assert_score([first, first], "no question is scored otherwise; 95 %: at most 3.0 % of such questions are")

    def test_a_run_with_failed_requests_has_no_score(self):
        failed = "[LMMS_EVAL_REQUEST_FAILED after 5 retries] Error code: 429"
        for fields in [{"answer": failed}, {"answer": "a", "resps": [failed]}]:
            path = self.write("a", [sample(0, 1.0), sample(1, 0.0, **fields)])
            done = self.score(path)
            self.assertEqual((done.returncode, done.stderr), (RUNTIME, ""))
            self.assertIn("no score: 1 of 2 requests failed, the first with: " + fields["answer"], done.stdout)

    def test_empty_answers_are_told(self):
        self.assert_score([self.write("a", [sample(0, 0.0, " "), sample(1, 1.0)])], "; empty answers: 1")

    def test_what_is_no_run_is_refused(self):
        good = [sample(0, 1.0), sample(1, 0.0)]
        path = self.write("good", good)
        self.refuse([], USAGE, "the following arguments are required")
        self.refuse([str(self.folder / "none")], BAD_INPUT, ".*none cannot be read")
        self.refuse([self.write("a", [])], BAD_INPUT, ".*a: there is no sample")
        self.refuse([self.write("a", [*good, {"doc_id": 2}])], BAD_INPUT, ".*a, line 3: this is no sample of lmms-eval")
        self.refuse([self.write("a", [good[0], [1]])], BAD_INPUT, ".*a, line 2: this is no sample")
        self.refuse([self.write("a", [good[0], good[0]])], BAD_INPUT, ".*a, line 2: the question 0 is there twice")
        self.refuse([self.write("a", [sample(0, "much")])], BAD_INPUT, ".*: exact of question 0 is no number")
        self.refuse([path, self.write("a", good[:1])], BAD_INPUT, ".* are not about the same questions")
        self.refuse([path, self.write("a", [good[0], {**good[1], "input": "other"}])], BAD_INPUT, ".* not about the same questions")


class Run(FolderTest):
    """run.py before lmms-eval is needed. `lmms_eval` is an empty module here."""

    def refuse(self, arguments, exit_code, sentence, installed=True):
        if installed:
            (self.folder / "lmms_eval.py").write_text("")
        done = subprocess.run([sys.executable, "-B", LMMS / "run.py", "--program", pathlib.Path(PROGRAM).resolve(), *map(str, arguments)], cwd=self.folder,
                              env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.folder)}, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (exit_code, ""), done.stderr)
        self.assertRegex(done.stderr, rf"\Arun: {sentence}[^\n]*\.\n\Z")

    def test_what_cannot_be_asked_is_refused_by_its_place(self):
        good = '{"images": [], "prompt": "One?", "answer": "One."}\n'
        questions = self.folder / "questions.jsonl"
        for text, sentence in [("", ": there is no question"), (good + "x\n", ", line 2: this is no question"),
                               (good + '{"images": [], "prompt": "One?"}\n', ", line 2: this is no question: 'answer'"),
                               ('{"images": ["a", "b"], "prompt": "?", "answer": ""}\n', ", line 1: .* the question 2 pictures"),
                               ('{"images": 3, "prompt": "?", "answer": ""}\n', ", line 1: this is no question"),
                               ("[]\n", ", line 1: this is no question")]:
            with self.subTest(text):
                questions.write_text(text)
                self.refuse(["--questions", questions], BAD_INPUT, ".*questions.jsonl" + sentence)
        self.refuse(["--questions", "none"], BAD_INPUT, "none cannot be read")
        self.refuse(["--limit", 0], USAGE, "--limit 0 is below 1")
        self.refuse(["--", "--kv-bits", 3], USAGE, ".*--kv-bits")

    def test_without_lmms_eval_it_says_what_to_install(self):
        self.refuse([], RUNTIME, "lmms-eval is not installed: pip install -r .*tools/eval/lmms/requirements.txt", installed=False)


if __name__ == "__main__":
    unittest.main()
