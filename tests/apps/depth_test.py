"""Pictures and frames of 16-bit grey, shown as depth in every command: as the 8-bit picture that they hold, to the bit."""

import base64
import struct
import subprocess
import unittest

from pictures import make_png, read_png
from program import BOARDS, HAS_HTTP, OK, PROGRAM, USAGE, FolderTest, run
from server import Server

NEAR, FAR = 1000, 1000 + 10 * 255  # so that each grey has a depth of its own
RANGE = f"{NEAR}..{FAR}"
PROMPT = "Describe this image."


class Depth(FolderTest):
    def setUp(self):
        super().setUp()
        self.width, self.height, rgb = read_png(BOARDS / "images" / "113.png")
        grey = bytes(rgb[i] for i in range(0, len(rgb), 3))  # red
        rows = [grey[y * self.width:(y + 1) * self.width] for y in range(self.height)]
        self.depths = [[FAR - 10 * value for value in row] for row in rows]
        self.grey, self.depth = self.folder / "grey.png", self.folder / "depth.png"
        self.grey.write_bytes(make_png(self.width, self.height, rows, "grey"))
        self.depth.write_bytes(make_png(self.width, self.height, [struct.pack(f">{len(row)}H", *row) for row in self.depths],
                                        "grey16"))

    def caption(self, path, *flags):
        (one,) = self.objects("caption", path, "--quiet", *flags)
        return one["answer"]

    def test_a_depth_picture_is_described_as_the_grey_one_that_it_shows(self):
        expected = self.caption(self.grey)
        self.assertEqual(self.caption(self.depth, "--depth-range", RANGE), expected)
        self.assertEqual(self.caption(self.grey, "--depth-range", RANGE), expected)  # of 8 bits: as it was
        self.assertNotEqual(self.caption(self.depth), expected)  # the upper eight bits: nearly black
        out = self.answer("ask", "--prompt", PROMPT, self.depth, "--depth-range", RANGE, "--quiet")
        self.assertEqual(out, self.answer("ask", "--prompt", PROMPT, self.grey, "--quiet"))
        turns = f"/image {self.depth}\n{PROMPT}\n"
        self.assertEqual(self.answer("chat", "--depth-range", RANGE, "--quiet", stdin=turns),
                         self.answer("chat", "--quiet", stdin=turns.replace("depth.png", "grey.png")))

    def test_frames_of_16_bits_are_described_as_the_grey_ones_that_they_show(self):
        expected = self.caption(self.grey)
        size = f"{self.width}x{self.height}"
        packed = [struct.pack(f"<{len(row)}H", *row) for row in self.depths]
        padded = b"".join(row + b"\xEE" * 6 for row in packed)
        for frame, flags in [(b"".join(packed), []), (padded, ["--stride", 2 * self.width + 6])]:
            done = subprocess.run([PROGRAM, "watch", "-", "--format", "gray16le", "--size", size, "--depth-range", RANGE,
                                   "--quiet", "--json", *map(str, flags)], input=frame, capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertIn(expected, done.stdout.decode())
        self.assertIn(expected, self.answer("watch", self.depth, "--depth-range", RANGE, "--quiet", "--json"))

    @unittest.skipUnless(HAS_HTTP, "needs libmicrohttpd")
    def test_serve_shows_depth(self):
        def ask(server, path):
            url = "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
            return server.ask([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}},
                                                            {"type": "text", "text": PROMPT}]}])
        server = Server("--depth-range", RANGE)
        try:
            self.assertEqual(ask(server, self.depth), ask(server, self.grey))
        finally:
            server.stop()

    def test_who_forgets_the_range_is_told_and_who_needs_none_too(self):
        done = run("caption", self.depth)
        self.assertRegex(done.stderr, r"depth\.png is grey of 16 bits, of which the upper eight are shown; for depth give "
                                      r"--depth-range NEAR\.\.FAR\.\n")
        self.assertNotIn("16 bits", run("caption", self.depth, "--depth-range", RANGE).stderr)
        self.assertIn("--depth-range has no effect: no picture is grey of 16 bits.\n",
                      run("caption", self.grey, "--depth-range", RANGE).stderr)
        for text in ("5000..300", "300", "300..70000", "near..far"):
            self.assert_refused(["caption", self.depth, "--depth-range", text], USAGE,
                                f"--depth-range is NEAR..FAR in the pictures' units, .*not \"{text}\"")
        self.assert_refused(["watch", "-", "--format", "gray", "--size", "8x8", "--depth-range", RANGE], USAGE,
                            "--depth-range is of frames of 16 bits")

    def test_a_library_knows_depth_by_what_is_shown(self):
        shelf = self.folder / "shelf"
        self.answer("library", "add", shelf, "--owner", "ann", self.depth, "--depth-range", RANGE, "--quiet")
        again = self.answer("library", "add", shelf, "--owner", "ann", self.grey, "--quiet")
        self.assertIn("already there", again)
        self.assertIn(" stored", self.answer("library", "add", shelf, "--owner", "ann", self.depth, "--quiet"))


if __name__ == "__main__":
    unittest.main()
