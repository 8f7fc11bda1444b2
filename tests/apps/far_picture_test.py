"""Who shows the bundled model a picture of a kind that it has never seen is told so."""

import math
import random
import subprocess
import unittest

from cli_test import with_exif
from pictures import make_png
from program import BOARDS, GREEN_STAR, OK, PROGRAM, SOURCE, FolderTest, board, run

NOTE = r"\ANote: {} is unlike the boards .*-hf SmolVLM-500M \(`ocellus models --published` lists more\)\.\n\Z"


def natural(seed):
    """Waves of all directions whose strength falls as their frequency grows, as in photographs, in each channel a little
    different."""
    chance = random.Random(seed)
    waves = [(chance.gauss(0, 1) / (2 ** octave), 2 ** octave * math.cos(angle) / 60, 2 ** octave * math.sin(angle) / 60,
              [chance.uniform(0, 1.5) for _ in range(3)]) for octave in range(5) for angle in
             (chance.uniform(0, math.pi) for _ in range(3))]
    base = [chance.uniform(0.3, 0.7) for _ in range(3)]
    return lambda x, y: [base[c] + 0.12 * sum(strength * math.sin(u * x + v * y + shift[c])
                                              for strength, u, v, shift in waves) for c in range(3)]


def landscape(x, y):
    noise = math.sin(x * 12.9898 + y * 78.233) * 43758.5453 % 1
    return (0.45 + y / 500, 0.6 + y / 600, 0.9) if y < 60 + 8 * math.sin(x / 9) else (0.2 * noise, 0.3 + 0.3 * noise, 0.1)


class FarPictures(FolderTest):
    def picture(self, name, color_of, width=160, height=120):
        """A file whose pixels are color_of(x, y), three numbers from 0 to 1."""
        path = self.folder / (name + ".png")
        path.write_bytes(make_png(width, height, (bytes(min(255, max(0, int(255 * value))) for x in range(width)
                                                        for value in color_of(x, y)) for y in range(height))))
        return path

    def test_no_board_is_called_far(self):
        boards = sorted(BOARDS.glob("images/*.png")) + sorted((SOURCE / "apps" / "samples").glob("board_*"))
        self.assertGreater(len(boards), 20)
        for i in range(0, len(boards), 16):  # more are not looked at
            done = run("caption", "-n", 1, *boards[i:i + 16])
            self.assertEqual((done.returncode, done.stderr), (OK, ""))

    def test_the_scene_that_moves_is_not_called_far(self):
        for size in ["256x256", "640x480"]:
            done = run("watch", "synthetic", "--size", size, "--frames", 2, "-n", 2)
            self.assertEqual(done.returncode, OK)
            self.assertNotIn("unlike", done.stderr)

    def test_pictures_like_photographs_are_called_far(self):
        for name, color_of in [*((f"natural {seed}", natural(seed)) for seed in range(12)), ("landscape", landscape),
                               ("black", lambda x, y: (0, 0, 0)), ("a page", lambda x, y: [x // 3 * y // 7 % 5 > 0] * 3)]:
            path = self.picture(name, color_of)
            with self.subTest(name=name):
                done = run("caption", path, "-n", 4)
                self.assertEqual(done.returncode, OK)
                self.assertRegex(done.stderr, NOTE.format(path))
                self.assertEqual(run("caption", path, "-n", 4, "--quiet").stderr, "")

    def test_every_command_that_takes_pictures_tells_once(self):
        path = self.picture("landscape", landscape)
        for arguments in [["ask", "--prompt", "What?"], ["caption"], ["chat"]]:
            with self.subTest(arguments=arguments):
                self.assertRegex(run(*arguments, board("113"), path, path, "-n", 2).stderr, NOTE.format(path))
        self.assertRegex(run("chat", stdin=f"/image {path}\n").stderr, "unlike the boards")
        stream = path.read_bytes()
        (self.folder / "other.png").write_bytes(stream)
        watching = run("watch", self.folder, "--change", 0, "-n", 2)
        self.assertEqual(watching.stderr.count("unlike the boards"), 1, watching.stderr)
        self.assertNotIn("unlike", run("watch", self.folder, "--change", 0, "-n", 2, "--quiet").stderr)

    def test_standard_input_is_called_by_its_name(self):
        black = subprocess.run([PROGRAM, "watch", "-", "--format", "gray", "--size", "64x64", "-n", "2"],
                               input=bytes(64 * 64), capture_output=True, timeout=60, check=False)
        self.assertRegex(black.stderr.decode(), "Note: standard input is unlike the boards")

    def test_another_model_is_not_spoken_of(self):
        path = self.picture("landscape", landscape)
        other = self.changed_model(b"Shapeboard 34M", b"Shapeboard 35M")
        self.assertEqual(run("caption", path, "-n", 1, *other).stderr, "")

    def test_what_was_decoded_for_the_remark_is_answered_about_like_the_file(self):
        turned = self.folder / "turned.png"
        turned.write_bytes(with_exif("115", 6))
        for path in (board("113"), self.picture("landscape", landscape), turned):
            with self.subTest(path=path):
                ask = ["ask", "--prompt", "What?", "--logprobs", 3, "-n", 8, path]
                (loud,), (quiet,) = self.objects(*ask), self.objects(*ask, "--quiet")
                self.assertEqual([loud["answer"], loud["logprobs"]], [quiet["answer"], quiet["logprobs"]])

    def test_a_board_is_described_without_change(self):
        self.assertEqual(self.answer("caption", board("113")), GREEN_STAR + "\n")


if __name__ == "__main__":
    unittest.main()
