"""Questions about videos: `ocellus ask --clip`, and plans for clips."""

import json
import os
import shutil
import unittest

from pictures import make_png
from program import (BAD_INPUT, OVER_BUDGET, SOURCE, USAGE, FolderTest, board, run)

JPEGS = [SOURCE / "apps" / "samples" / name for name in ("board_01.jpg", "board_04.jpg")]
FAMILIES = SOURCE / "tests" / "data" / "families"
QWEN3 = FAMILIES / "qwen3-vl"
PAIRS = ["-m", QWEN3 / "model.gguf", "--mmproj", QWEN3 / "mmproj.gguf"]  # takes frames in pairs
LLAVA = FAMILIES / "llava-1.5"
QUESTION = ["--prompt", "What is on the left?", "-n", 8]
VIEW = 64  # rows of a view of the bundled model


def y4m(frames, rate, width=64, height=48):
    planes = [bytes([16 + 13 * i % 200]) * (width * height) + bytes([90 + i % 100]) * (width * height // 2)
              for i in range(frames)]
    header = f"YUV4MPEG2 W{width} H{height} F{rate} Ip C420jpeg\n".encode()
    return header + b"".join(b"FRAME\n" + plane for plane in planes)


class Clips(FolderTest):
    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def ask(self, *arguments):
        return self.objects("ask", *QUESTION, *arguments)[0]

    def boards(self, *names):
        folder = self.folder / "boards"
        folder.mkdir()
        for i, name in enumerate(names):
            shutil.copy(board(name), folder / f"frame{i + 1}.png")
        return folder

    def test_the_frames_of_a_directory_come_a_second_apart(self):
        said = self.ask("--clip", self.boards("113", "063", "098"))
        self.assertEqual(said["clip"]["seconds"], [0, 1, 2])
        self.assertEqual(said["clip"]["duration"], 3)
        self.assertEqual(said["image_tokens"], 3 * VIEW)
        self.assertGreater(said["prompt_tokens"], 3 * VIEW + 60)  # the words around them

    def test_times_are_those_of_the_file_or_the_flag_and_no_frame_is_waited_for(self):
        video = self.write("video.y4m", y4m(16, "5:1"))
        said = self.ask("--clip", video)
        self.assertEqual(said["clip"]["seconds"], [0, 1.4, 3])
        self.assertEqual(said["clip"]["duration"], 3.2)
        slow = self.ask("--clip", video, "--fps", 0.1)
        self.assertEqual(slow["clip"]["seconds"], [10.0 * i for i in range(16)])
        self.assertEqual(slow["clip"]["duration"], 160)
        few = self.ask("--clip", video, "--fps", 0.1, "--clip-frames", 4)
        self.assertEqual(few["clip"]["seconds"], [0, 50, 100, 150])
        self.assertEqual(few["image_tokens"], 4 * VIEW)

    def test_qwens_frames_are_those_of_qwen_vl_utils_or_by_choice_of_transformers(self):
        video = self.write("video.y4m", y4m(25, "25:2"))
        qwen2 = ["-m", FAMILIES / "qwen2-vl" / "model.gguf", "--mmproj", FAMILIES / "qwen2-vl" / "mmproj.gguf"]
        for model, rule, frames in [(qwen2, [], [0, 8, 16, 24]), (qwen2, ["authors"], [0, 8, 16, 24]),
                                    (qwen2, ["transformers"], [0, 6, 12, 18]), (PAIRS, ["transformers"], [0, 8, 16, 24])]:
            flags = ["--clip-sampling", *rule] if rule else []
            said = self.ask("--clip", video, *model, *flags)
            self.assertEqual([round(second * 12.5) for second in said["clip"]["seconds"]], frames)

    def test_a_file_of_jpegs_is_asked_about_as_a_directory_of_them(self):
        folder = self.folder / "frames"
        folder.mkdir()
        for i, path in enumerate(JPEGS):
            shutil.copy(path, folder / f"{i}.jpg")
        video = self.write("video.mjpeg", b"".join(path.read_bytes() for path in JPEGS))
        files = [self.ask("--clip", clip, "--fps", 1) for clip in (folder, video)]
        self.assertEqual(files[0]["clip"]["seconds"], [0, 1])
        self.assertEqual(files[0]["answer"], files[1]["answer"])
        self.assertEqual(files[0]["prompt_tokens"], files[1]["prompt_tokens"])
        self.assertEqual(self.ask("--clip", video)["clip"]["seconds"], [0])  # at 30 a second it takes no time

    def test_broken_frames_are_left_out_and_told(self):
        jpeg = JPEGS[0].read_bytes()
        video = self.write("video.mjpeg", jpeg + jpeg + jpeg[:len(jpeg) // 2])
        done = run("ask", *QUESTION, "--clip", video, "--fps", 1, "--json")
        self.assertRegex(done.stderr, r"\ANote: \S*video\.mjpeg: the last frame is cut short\.\n\Z")
        self.assertEqual(json.loads(done.stdout)["clip"]["seconds"], [0, 1])
        self.assertEqual(run("ask", *QUESTION, "--clip", video, "--quiet").stderr, "")

    def test_pictures_may_follow_a_clip(self):
        said = self.ask("--clip", self.boards("113", "063"), board("098"))
        self.assertEqual(said["image_tokens"], 3 * VIEW)

    def test_frames_come_from_the_library_as_pictures_do(self):
        clip, shelf = self.boards("113", "063"), self.folder / "shelf"
        flags = ["--clip", clip, "--library", shelf, "--owner", "ann"]
        first, second = self.ask(*flags), self.ask(*flags)
        self.assertEqual((first["library_hits"], first["library_misses"]), (0, 2))
        self.assertEqual((second["library_hits"], second["library_misses"]), (2, 0))
        self.assertEqual(first["answer"], second["answer"])

    def test_the_plan_of_a_clip_equals_the_memory_of_the_engine(self):
        flags = ["--text-tokens", 64, "--image-pixels", "512x512", "--whole-pixels", 1]
        planned = self.objects("plan", "--clip-frames", 3, *flags)[0]
        self.assertEqual((planned["images"], planned["clip_frames"]), (0, 3))
        said = self.ask("--clip", self.boards("113", "063", "098"), *flags)
        self.assertEqual(said["arena_bytes"], planned["total_bytes"])
        self.assertIn("each with 3 frames of clips", self.answer("plan", "--clip-frames", 3))

    def test_two_frames_are_a_picture_for_models_that_take_pairs(self):
        rows = 3 * 4  # of a frame of 64 x 48, 16 pixels a row
        video = self.write("video.y4m", y4m(16, "5:1"))
        said = self.ask("--clip", video, *PAIRS)
        self.assertEqual(said["clip"]["seconds"], [0, 0.6, 1.2, 1.8, 2.4, 3])
        self.assertEqual(said["image_tokens"], 3 * rows)
        one = self.ask("--clip", self.write("one.y4m", y4m(1, "5:1")), *PAIRS)
        self.assertEqual(one["image_tokens"], rows)
        picture = self.write("a.png", make_png(64, 64, [b"\0\1\2" * 64] * 64))
        self.assertEqual(self.ask("--clip", video, "--clip-frames", 2, *PAIRS, picture)["image_tokens"], rows + 16)
        flags = ["--text-tokens", 64, "--image-pixels", "64x48", "--whole-pixels", 1, *PAIRS]
        planned = self.objects("plan", "--clip-frames", 6, *flags)[0]
        self.assertEqual(self.ask("--clip", video, *flags)["arena_bytes"], planned["total_bytes"])
        self.assert_refused(["ask", *QUESTION, "--clip", self.sizes(), *PAIRS], BAD_INPUT,
                            "frame 2 of the clip is 65 x 48 pixels and frame 1 is 64 x 48: .* with frames of one size")

    def sizes(self):
        folder = self.folder / "sizes"
        folder.mkdir()
        for i, width in enumerate((64, 65)):
            (folder / f"{i}.png").write_bytes(make_png(width, 48, [b"\0\1\2" * width] * 48))
        return folder

    def test_files_that_are_no_clip_are_refused(self):
        empty = self.folder / "empty"
        empty.mkdir()
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        video = self.write("video.y4m", y4m(16, "5:1"))
        tall = self.write("tall.png", make_png(1, 1, [b"\0\0\0"])[:40])
        for arguments, code, sentence in [
                (["--clip", self.folder / "none.y4m"], BAD_INPUT, r"none\.y4m: .*No such file"),
                (["--clip", empty], BAD_INPUT, "the directory holds no pictures"),
                (["--clip", pipe], USAGE, "a clip is a file or a directory"),
                (["--clip", "-"], BAD_INPUT, "the clip cannot be opened"),
                (["--clip", self.write("a.y4m", b"YUV4MPEG2 W4 H4 F25:1\n")], BAD_INPUT, r"a\.y4m: the clip has no frames"),
                (["--clip", self.write("b.mp4", b"\0\0\0\x18ftypisom" + b"\0" * 99)], USAGE, "ffmpeg"),
                (["--clip", self.write("c.txt", b"no video at all")], BAD_INPUT, r"c\.txt: .*neither motion JPEG nor Y4M"),
                (["--clip", tall], BAD_INPUT, r"tall\.png: the clip has no frames"),
                (["--clip", video, "--fps", 0.0001], USAGE, "--fps"),
                (["--clip", self.write("d.y4m", y4m(200, "1:1")), "--fps", 0.001], BAD_INPUT, "a day or more"),
                (["--clip", video, "--clip-frames", 0], USAGE, "--clip-frames"),
                (["--clip", video, "--image-tiles", 2], USAGE, "has frames of one view each"),
                (["--clip", video, "--clip-sampling", "torch"], USAGE, "it is authors or transformers"),
                (["--clip-sampling", "authors"], USAGE, "--clip"),
                (["--fps", 2], USAGE, "--clip"), (["--clip-frames", 2], USAGE, "--clip"),
                (["--clip", self.write("e.y4m", y4m(300, "1:1")), "--clip-frames", 300], OVER_BUDGET,
                 "300 pictures and .* take at least .* positions"),
                (["--clip", video, "-m", LLAVA / "model.gguf", "--mmproj", LLAVA / "mmproj.gguf"], BAD_INPUT,
                 "LLaVA-1.5 takes no clips: add the frames as pictures")]:
            with self.subTest(arguments=arguments):
                self.assert_refused(["ask", *QUESTION, "--quiet", *arguments], code, sentence)
        self.assert_refused(["plan", "--solve", "images", "--budget", "1G", "--clip-frames", 2], USAGE, "--clip-frames")


if __name__ == "__main__":
    unittest.main()
