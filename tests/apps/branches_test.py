"""The program in any build: what was left out is listed, and a command that needs it ends with a sentence."""

import re
import tempfile
import unittest

from program import BAD_INPUT, GREEN_STAR, ProgramTest, board


class Branches(ProgramTest):
    def setUp(self):
        listed = re.search(r"\nbranches: ([a-z, ]+)(?:; left out: ([a-z, ]+))?\n\Z", self.answer("--version"))
        self.assertTrue(listed)
        self.left_out = (listed[2] or "").split(", ")

    def test_a_picture_is_described(self):
        self.assertEqual(self.answer("caption", board("113"), "--quiet"), GREEN_STAR + "\n")

    def check(self, branch, *arguments):
        if branch in self.left_out:
            self.assert_refused(arguments, BAD_INPUT, f"this build has no .* the branch {branch} ")
        else:
            self.answer(*arguments)

    def test_commands_that_need_a_branch_are_answered_or_refused_by_its_name(self):
        self.check("constrain", "caption", board("113"), "--quiet", "--regex", "A large (green|cyan) star")
        self.check("draft", "caption", board("113"), "--quiet", "--draft", "last")
        self.check("evict", "caption", board("113"), "--quiet", "--evict", "snapkv", "--keep", "0.5")
        with tempfile.TemporaryDirectory() as folder:
            self.check("library", "library", "add", folder, "--owner", "ann", board("113"))
        self.check("pack", "caption", board("113"), "--quiet", "--kv-scheme", "kivi", "--kv-bits", "2")
        self.check("reduce", "caption", board("113"), "--quiet", "--reduce", "cover-rows", "--reduce-keep", "0.5")
        self.check("reuse", "caption", board("113"), "--quiet", "--reuse", "mpic:8")
        self.check("roll", "watch", "synthetic", "--quiet", "--memory", "rolling", "--frames", "2")
        self.check("measure", "bench", "--quiet", "--visual", "64", "-n", "2", "-r", "1")


if __name__ == "__main__":
    unittest.main()
