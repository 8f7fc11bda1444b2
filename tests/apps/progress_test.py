"""Progress of work that takes longer than a second: a bar on a terminal, elsewhere a line for each tenth."""

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import tempfile
import termios
import threading
import time
import unittest

from program import GREEN_STAR, OK, PROGRAM, SOURCE, FolderTest, board

BAR = r"{}  (\d+) % \[[#.]{{24}}\] "
LINE = r"ocellus: {}: (\d+) %, "
LOADING = "loading SmolVLM-256M, random weights"
ERASE = "\r\x1b[K"


class Shown:
    """A run of the program that gets a few milliseconds now and then until stderr matches `slow_until`, or `limit_s` is
    over; then it is sent `stop`, if that is given. `columns`: of a terminal that is stderr; 0: stderr is a pipe."""

    def __init__(self, arguments, slow_until, columns=0, stop=None, limit_s=30):
        ours, its = os.openpty() if columns else os.pipe()
        if columns:
            fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.parts = []
        with tempfile.TemporaryFile("w+") as stdout:
            self.process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=stdout,
                                            stderr=its)
            os.close(its)
            reader = threading.Thread(target=self._read, args=[ours])
            reader.start()
            self._hold_back(re.compile(slow_until), stop, limit_s)
            self.code = self.process.wait(60)
            reader.join()
            os.close(ours)
            stdout.seek(0)
            self.stdout = stdout.read()

    @property
    def stderr(self):
        return b"".join(self.parts).decode()

    @property
    def lines(self):
        return self.stderr.splitlines()

    @property
    def frames(self):
        """What was drawn over one another."""
        return self.stderr.split(ERASE)

    def _read(self, ours):
        try:
            while part := os.read(ours, 4096):
                self.parts.append(part)
        except OSError:
            pass  # the end of a terminal, as Linux tells it

    def _hold_back(self, seen, stop, limit_s):
        end = time.monotonic() + limit_s
        while self.process.poll() is None and time.monotonic() < end:
            self.process.send_signal(signal.SIGSTOP)
            time.sleep(0.06)
            is_seen = seen.search(self.stderr)
            if is_seen and stop is not None:
                self.process.send_signal(stop)
            self.process.send_signal(signal.SIGCONT)
            if is_seen:
                return
            time.sleep(0.002)


class Loading(FolderTest):
    load = ["bench", "--shape", "SmolVLM-256M", "-p", 1, "-n", 1, "-r", 1, "--images", 0, "--threads", 1,
            "--text-tokens", 64]

    def test_a_bar_on_a_terminal_that_is_erased(self):
        begin = time.monotonic()
        shown = Shown(self.load, BAR.format(LOADING), columns=120)
        self.assertEqual(shown.code, OK)
        self.assertRegex(shown.stderr, BAR.format(LOADING) + r"\d+\.\d of \d+\.\d MiB")
        self.assertEqual((shown.frames[0], shown.frames[-1]), ("", ""))
        self.assertNotIn("\n", shown.stderr)
        self.assertLessEqual(len(shown.frames), 10 * (time.monotonic() - begin) + 5)

    def test_no_frame_is_wider_than_the_terminal(self):
        for columns in 20, 60:
            shown = Shown(self.load, LOADING[:columns - 1], columns=columns)
            self.assertEqual(shown.code, OK)
            self.assertTrue(any(shown.frames))
            self.assertLess(max(map(len, shown.frames)), columns)

    def test_a_line_for_each_tenth_elsewhere(self):
        shown = Shown(self.load, LINE.format(LOADING))
        self.assertEqual(shown.code, OK)
        lines = [line for line in shown.lines if LOADING in line]
        shares = [int(re.match(LINE.format(LOADING), line)[1]) for line in lines]
        tenths = [share // 10 for share in shares]
        self.assertEqual(tenths, sorted(set(tenths)))
        self.assertEqual(shares[-1], 100)
        self.assertRegex(lines[-1], r"(\d+\.\d) of \1 MiB, .*after \d+ s$")

    def test_quiet_shows_none_and_the_answer_is_the_same(self):
        for columns in 0, 80:
            begin = time.monotonic()
            shown = Shown(["caption", board("113"), "--quiet"], "never", columns=columns, limit_s=2)
            self.assertGreater(time.monotonic() - begin, 1)
            self.assertEqual((shown.code, shown.stdout, shown.stderr), (OK, GREEN_STAR + "\n", ""))
            shown = Shown(["caption", board("113"), "--threads", 1], "reading the prompt", columns=columns, limit_s=2)
            self.assertEqual((shown.code, shown.stdout), (OK, GREEN_STAR + "\n"))

    def test_a_signal_erases_the_bar(self):
        for number in signal.SIGINT, signal.SIGTERM:
            shown = Shown(self.load, BAR.format(LOADING), columns=120, stop=number)
            self.assertEqual((shown.code, shown.stdout), (-number, ""))
            self.assertTrue(shown.stderr.endswith(ERASE), repr(shown.stderr))

    def test_work_of_less_than_a_second_shows_none(self):
        self.assertEqual(Shown(["models"], "").stderr, "")


class Commands(FolderTest):
    def setUp(self):
        super().setUp()
        text = (SOURCE / "apps" / "samples" / "questions.jsonl").read_text().splitlines()[0]
        question = json.loads(text)
        question["images"] = [str(SOURCE / "apps" / "samples" / image) for image in question["images"]]
        self.questions = self.folder / "questions.jsonl"
        self.questions.write_text((json.dumps(question) + "\n") * 5)
        self.text = self.folder / "text.txt"
        self.text.write_text("A large green star. " * 200)

    def commands(self):
        """Work, its arguments, and how a line goes on."""
        return [
            ("answering", ["eval", self.questions], r"\d of 5 questions, .*, accuracy \d"),
            ("answering", ["calibrate", self.questions, "--kv-bits", 4, "--limit", 1, "--dry-run"],
             r"\d+ of 16 questions, .*, 4 bits, tau \d and \d: accuracy \d"),
            ("reading the text", ["perplexity", self.text, "--window", 64], r"\d+ of \d+ windows, .*, perplexity \d"),
            ("measuring", ["bench", "-p", 8, "-n", 4, "-r", 4], r"\d of 5 rounds, "),
            ("adding to the library", ["library", "add", self.folder / "shelf", "--owner", "a", *map(board, self.boards)],
             r"\d of 6 pictures, .*, \S+\.png"),
            ("writing the model", ["make-model", "--shape", "SmolVLM-256M", "--layers", 2, "--output", self.folder],
             r"\d+\.\d of \d+\.\d MiB, .*\.gguf"),
        ]

    boards = ["004", "024", "028", "036", "063", "113"]

    def test_every_long_command_shows_how_far_it_is(self):
        for task, arguments, end in self.commands():
            with self.subTest(command=arguments[0]):
                shown = Shown(arguments, LINE.format(task))
                self.assertEqual(shown.code, OK, shown.stderr)
                lines = [line for line in shown.lines if line.startswith(f"ocellus: {task}: ")]
                self.assertTrue(lines, shown.stderr)
                self.assertLessEqual(len(lines), 10)
                self.assertRegex(lines[0], LINE.format(task) + end)
                self.assertRegex(lines[-1], ": 100 %, ")

    def test_an_interrupted_eval_leaves_no_bar(self):
        shown = Shown(["eval", self.questions], BAR.format("answering"), columns=120, stop=signal.SIGINT)
        self.assertEqual(shown.code, 130)
        self.assertEqual(shown.frames[-1], "")
        self.assertEqual(shown.stdout, "")


if __name__ == "__main__":
    unittest.main()
