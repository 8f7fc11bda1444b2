"""lmms-eval from PyPI against `ocellus serve` with the task of tools/eval/lmms. Its packages take 7 GB and minutes, so this
runs when it is asked for: as a program, which makes a virtual environment below the build folder. Where PyPI cannot be
reached it is skipped, with exit code 77."""

import base64
import http.server
import importlib.util
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

from program import HAS_HTTP, PROGRAM, SOURCE, needs_http
from virtual_environment import go_on_with

HAS_LMMS_EVAL = importlib.util.find_spec("lmms_eval") is not None
LMMS = SOURCE / "tools" / "eval" / "lmms"
SAMPLES = SOURCE / "apps" / "samples"
SKIPPED = 77


class Recorder(http.server.BaseHTTPRequestHandler):
    """Answers "Teal." to every question but those about signs, and keeps what it got."""
    requests = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append((self.path, body))
        fails = "sign" in json.dumps(body["messages"][0]["content"][-1])
        data = json.dumps({"error": {"message": "it is full"}} if fails else
                          {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Teal."}}]}).encode()
        self.send_response(400 if fails else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


def pixels_of(file):
    from PIL import Image
    with Image.open(file) as image:
        return image.size, image.convert("RGB").tobytes()


@unittest.skipUnless(HAS_LMMS_EVAL, "lmms-eval is not installed: run this file as a program")
@needs_http
class LmmsEval(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def python(self, *arguments, **environment):
        return subprocess.run([sys.executable, "-B", *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, **environment}, timeout=900, check=False)

    def test_the_score_and_every_answer_are_those_of_eval(self):
        for flags in [[], ["--kv-bits", 2, "--evict", "david", "--keep", 0.05]]:
            with self.subTest(flags=flags):
                done = self.python(LMMS / "run.py", "--program", pathlib.Path(PROGRAM).resolve(), "--", *flags)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                scores = re.findall(r"^  exact ([\d.]+) % of 24 questions", done.stdout, re.MULTILINE)
                self.assertEqual(len(scores), 2, done.stdout)
                self.assertEqual(scores[0], scores[1], done.stdout)
                self.assertEqual(scores[0] == "100.0", not flags)
                self.assertIn("; the same answers: 24, prompts of the same length: 24\n", done.stdout)

    def test_requests_are_the_questions_and_a_failure_is_no_answer(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = self.python("-m", "lmms_eval", "--model", "openai", "--include_path", LMMS, "--tasks", "ocellus_boards",
                           "--model_args", f"model=m,base_url=http://127.0.0.1:{server.server_port}/v1,max_retries=1",
                           "--log_samples", "--output_path", "out", HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1",
                           HF_HOME=str(self.folder / "cache"), OPENAI_API_KEY="any")
        self.assertEqual(done.returncode, 0, done.stdout)
        rows = [json.loads(line) for line in (SAMPLES / "questions.jsonl").read_text().splitlines()]
        self.assertEqual(len(Recorder.requests), len(rows))
        wanted = {row["prompt"] + " ".join(row["images"]): row for row in rows}
        for path, body in Recorder.requests:
            content = body["messages"][0]["content"]
            self.assertEqual((path, sorted(body)), ("/v1/chat/completions", ["max_tokens", "messages", "model", "temperature"]))
            self.assertEqual((len(body["messages"]), body["max_tokens"], body["temperature"]), (1, 128, 0))
            pictures = [part["image_url"]["url"].removeprefix("data:image/png;base64,") for part in content if "image_url" in part]
            prompt = "".join(part.get("text", "<image>") for part in content)
            seen = [pixels_of(io.BytesIO(base64.b64decode(picture))) for picture in pictures]
            (key,) = [key for key, row in wanted.items() if row["prompt"] == prompt and
                      [pixels_of(SAMPLES / image) for image in row["images"]] == seen]
            del wanted[key]
        scored = self.python(LMMS / "score.py", *(self.folder / "out").rglob("*_samples_*.jsonl"))
        self.assertRegex(scored.stdout, r"no score: 2 of 24 requests failed, the first with: .*it is full")
        self.assertEqual(scored.returncode, 1, scored.stderr)
        self.assertRegex(done.stdout, r"failed *\|.*\|0\.0833\|")


def main():
    if not HAS_LMMS_EVAL and HAS_HTTP:
        try:
            go_on_with("lmms", LMMS / "requirements.txt")
        except subprocess.CalledProcessError:
            print("lmms_test: skipped: its packages could not be installed; is PyPI within reach?", file=sys.stderr)
            sys.exit(SKIPPED)
    unittest.main()


if __name__ == "__main__":
    main()
