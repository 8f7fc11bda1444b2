"""Models in several files, which the program is given by the first one's name."""

import shutil
import struct
import unittest

from program import BAD_INPUT, GREEN_STAR, MMPROJ, MODEL, OK, USAGE, FolderTest, board, run

HEADER = struct.Struct("<4sIQQ")  # GGUF, version, counts of tensors and entries
U16, I32, STRING = 2, 5, 8


def entry(key, value_type, value):
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", value_type) + value


def split_keys(number, tensors):
    return [entry("split.no", U16, struct.pack("<H", number)), entry("split.count", U16, struct.pack("<H", 2)),
            entry("split.tensors.count", I32, struct.pack("<i", tensors))]


def write_in_two(source, folder):
    """A part with all tensors and one with none; a remark keeps the first one's data where its alignment wants it."""
    content = source.read_bytes()
    magic, version, tensors, entries = HEADER.unpack_from(content)
    keys = split_keys(0, tensors)
    missing = -len(b"".join(keys) + entry("test.remark", STRING, struct.pack("<Q", 0))) % 32
    keys.append(entry("test.remark", STRING, struct.pack("<Q", missing) + b"." * missing))
    first, second = (folder / f"{source.stem}-0000{number}-of-00002.gguf" for number in (1, 2))
    first.write_bytes(HEADER.pack(magic, version, tensors, entries + len(keys)) + b"".join(keys) +
                      content[HEADER.size:])
    second.write_bytes(HEADER.pack(magic, version, 0, 3) + b"".join(split_keys(1, tensors)))
    return first, second


class SplitModel(FolderTest):
    def setUp(self):
        super().setUp()
        self.model, self.second = write_in_two(MODEL, self.folder)
        self.mmproj, self.mmproj_second = write_in_two(MMPROJ, self.folder)
        self.pair = ["--model", self.model, "--mmproj", self.mmproj]

    def test_a_pair_in_parts_answers_and_plans_like_the_whole_one(self):
        self.assertEqual(self.answer("caption", board("113"), *self.pair).strip(), GREEN_STAR)
        self.assertEqual(self.answer("plan", *self.pair), self.answer("plan"))

    def test_another_part_than_the_first_is_told_which_one_to_name(self):
        for arguments in [["-m", self.second], ["-m", MODEL, "--mmproj", self.mmproj_second]]:
            self.assert_refused(["caption", board("113"), *arguments], BAD_INPUT,
                                r"part 2 of 2 of a model .*: name the first part, \S*-00001-of-00002\.gguf")

    def test_parts_that_a_shell_lists_are_told_apart_from_pictures(self):
        self.assert_refused(["caption", *self.pair, self.second, board("113")], BAD_INPUT,
                            "it is a GGUF model file, not a picture: give models with --model and --mmproj, and of a model "
                            "in parts only the first")

    def test_a_missing_part_and_a_name_that_does_not_fit_are_bad_input(self):
        renamed = self.folder / "model.gguf"
        shutil.copy(self.model, renamed)
        self.assert_refused(["caption", board("113"), "-m", renamed], BAD_INPUT,
                            "does not end in -00001-of-00002.gguf")
        self.mmproj_second.unlink()
        for command in [["caption", board("113")], ["plan"]]:
            self.assert_refused([*command, *self.pair], BAD_INPUT,
                                rf"cannot open \S*/{self.mmproj_second.name}: No such file or directory: it is part 2")

    def test_a_calibration_is_of_all_parts(self):
        question = self.folder / "questions.jsonl"
        question.write_text('{"images": ["%s"], "prompt": "<image>What is it?", "answer": "star"}\n' % board("113"))
        taus = ["--kv-bits", 2, "--calib", "auto"]
        calibrated = run("calibrate", question, "-m", self.model, "--mmproj", self.mmproj, "--kv-bits", 2)
        self.assertEqual(calibrated.returncode, OK, calibrated.stderr)
        self.answer("caption", board("113"), *self.pair, *taus)
        with open(self.second, "ab") as file:
            file.write(b"another model")
        self.assert_refused(["caption", board("113"), *self.pair, *taus], BAD_INPUT, "run ocellus calibrate again")


if __name__ == "__main__":
    unittest.main()
