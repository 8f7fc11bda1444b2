"""What files say reaches a terminal as text, never as commands."""

import json
import os
import pathlib
import re
import struct
import subprocess
import unittest

from program import BAD_INPUT, GREEN_STAR, MODEL, OK, PROGRAM, USAGE, FolderTest, board

COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
HOSTILE = b"\x1b[2J\r\n\x9b1m\xc2\x9b2m\xe2\x80\xaegnp\x07"
HOSTILE_SHOWN = r"\x1b[2J\x0d\x0a" "\ufffd" r"1m\u009b2m\u202egnp\x07"


class TerminalTest(FolderTest):
    def run_bytes(self, *arguments, code=OK, **others):
        done = subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, timeout=120, check=False,
                              **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **others})
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def text(self, output):
        """Output that is UTF-8 and commands nothing."""
        text = output.decode()
        self.assertIsNone(COMMANDS.search(text), repr(text))
        return text

    def on_terminal(self, *arguments):
        """What the program writes to stdout where that is a terminal; the terminal adds the carriage returns."""
        ours, its = os.openpty()
        with os.fdopen(ours, "rb", buffering=0) as screen:
            done = self.run_bytes(*arguments, stdout=its)
            os.close(its)
            shown = b""
            try:
                while part := screen.read(4096):
                    shown += part
            except OSError:
                pass  # the end, as Linux tells it
        self.assertEqual(self.text(done.stderr), "")
        return self.text(shown.replace(b"\r\n", b"\n"))


class Names(TerminalTest):
    def test_a_picture_with_a_hostile_name_is_refused_in_one_harmless_line(self):
        path = os.fsencode(self.folder) + b"/" + HOSTILE + b".png"
        for command in [[b"caption"], [b"ask", b"--prompt", b"What?"], [b"eval"], [b"watch"]]:
            with self.subTest(command=command):
                done = self.run_bytes(*command, path, code=BAD_INPUT)
                line = self.text(done.stderr)
                self.assertEqual(line.count("\n"), 1)
                self.assertIn(HOSTILE_SHOWN, line)
        self.assertIn(HOSTILE_SHOWN, self.text(self.run_bytes(b"plan", b"--" + HOSTILE, code=USAGE).stderr))
        pathlib.Path(os.fsdecode(path)).write_bytes(b"no picture")
        self.assertIn(HOSTILE_SHOWN, self.text(self.run_bytes(b"caption", path, code=BAD_INPUT).stderr))

    def test_the_name_of_a_picture_before_its_caption(self):
        path = os.path.join(self.folder, os.fsdecode(HOSTILE))
        pathlib.Path(path).write_bytes(pathlib.Path(board("113")).read_bytes())
        shown = f"{self.folder}/{HOSTILE_SHOWN}: {GREEN_STAR}\n" * 2
        self.assertEqual(self.on_terminal("caption", path, path), shown)
        self.assertEqual(self.text(self.run_bytes("caption", path, path).stdout), shown)

    def test_a_model_with_a_hostile_name(self):
        changed = self.changed_model(b"Shapeboard 34M", b"\x1b]0;ab\x07\n\xc2\x9b\xff\xe2\x80\xae")
        plan = self.text(self.run_bytes("plan", *changed).stdout)
        self.assertEqual(plan.split(":")[0], r"\x1b]0;ab\x07\x0a\u009b" "\ufffd" r"\u202e")
        bench = self.text(self.run_bytes("bench", "-p", "8", "-n", "2", "-r", "1", *changed).stdout)
        self.assertIn(r"\x1b]0;ab\x07\x0a", bench)

    def test_json_escapes_terminal_control_characters(self):
        path = os.path.join(self.folder, "\x7f\x9b\u202e.png")
        pathlib.Path(path).write_bytes(pathlib.Path(board("113")).read_bytes())
        line = self.text(self.run_bytes("caption", "--json", path).stdout)
        self.assertEqual(json.loads(line)["image"], path)


class Answers(TerminalTest):
    def test_tokens_of_a_hostile_vocabulary(self):
        # The model's comma changes places with the escape character, which byte-level vocabularies write as U+011B.
        comma, escape = (struct.pack("<Q", len(text)) + text for text in (b",", "\u011b".encode()))
        content = MODEL.read_bytes()
        tokens = content.index(b"tokenizer.ggml.tokens")
        places = content.index(comma, tokens), content.index(escape, tokens)
        first, second = sorted([(places[0], comma, escape), (places[1], escape, comma)])
        changed = self.changed_model(first[1] + content[first[0] + len(first[1]):second[0]] + second[1],
                                     first[2] + content[first[0] + len(first[1]):second[0]] + second[2])
        wanted = GREEN_STAR.replace(",", "\x1b")
        self.assertEqual(self.run_bytes("caption", board("113"), *changed).stdout.decode(), wanted + "\n")
        for command in [["caption"], ["ask", "--prompt", "Caption this image."]]:
            shown = self.on_terminal(*command, board("113"), *changed)
            self.assertEqual(shown, wanted.replace("\x1b", r"\x1b") + "\n")


if __name__ == "__main__":
    unittest.main()
