"""Clips in the camera app: `ocellus watch --clip-frames`, with tiny models that read frames in pairs."""

import json
import os
import signal
import subprocess
import unittest

from clip_test import y4m
from pictures import make_png
from program import BAD_INPUT, OK, OVER_BUDGET, PROGRAM, SOURCE, USAGE, FolderTest, needs_http
from watch_test import Watching, lines_of

FAMILIES = SOURCE / "tests" / "data" / "families"
WIDTH, HEIGHT = 64, 48
ROWS = 3 * 4  # of a frame of this size, 16 pixels a row


def pair(family):
    """Some families share a file."""
    paths = json.loads((FAMILIES / family / "goldens.json").read_text())
    return ["-m", FAMILIES / family / paths["model"], "--mmproj", FAMILIES / family / paths["mmproj"]]


QWEN3 = pair("qwen3-vl")
SHORT = ["-n", 6, "--prompt", "What is it?", "--image-pixels", f"{WIDTH}x{HEIGHT}", "--whole-pixels", 1]
SCENE = ["synthetic", "--size", f"{WIDTH}x{HEIGHT}", *SHORT]


class WatchClips(FolderTest):
    def frames(self, count, start=0):
        """A directory of pictures that differ."""
        folder = self.folder / f"frames{start}"
        folder.mkdir()
        for i in range(start, start + count):
            rows = [bytes((40 * i + x) % 256 for x in range(3 * WIDTH))] * HEIGHT
            (folder / f"{i}.png").write_bytes(make_png(WIDTH, HEIGHT, rows))
        return folder

    def captions(self, *arguments):
        return lines_of(self.answer("watch", *arguments, "--json"), "caption")

    @staticmethod
    def numbers(caption):
        return [frame["sequence"] for frame in caption["clip"]]

    def test_each_answer_is_about_the_newest_frames_and_the_same_as_that_of_ask(self):
        folder, last = self.frames(6), self.frames(4, start=2)
        for family in ("qwen3-vl", "qwen2.5-vl", "qwen2-vl"):
            with self.subTest(family=family):
                flags = [*SHORT, "--fps", 4, *pair(family)]
                said = self.captions(folder, *flags, "--clip-frames", 4, "--clip-fps", 4)
                self.assertEqual([self.numbers(one) for one in said],
                                 [[1], [1, 2], [2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]])
                self.assertEqual([frame["seconds"] for frame in said[-1]["clip"]], [0, 0.25, 0.5, 0.75])
                (asked,) = self.objects("ask", "--clip", last, *flags)
                self.assertEqual(asked["clip"]["seconds"], [0, 0.25, 0.5, 0.75])
                self.assertEqual(said[-1]["text"], asked["answer"])

    def test_the_times_of_a_file_are_its_own(self):
        video = self.folder / "video.y4m"
        video.write_bytes(y4m(12, "20:1"))
        said = self.captions(video, *SHORT, *QWEN3, "--clip-frames", 2, "--clip-fps", 20, "--change", 0)
        self.assertGreater(len(said), 1)
        for one in said[1:]:
            first, second = one["clip"]
            apart = second["sequence"] - first["sequence"]
            self.assertAlmostEqual(second["seconds"] - first["seconds"], apart / 20)
            self.assertEqual((one["sequence"], one["capture_ns"]), (second["sequence"], second["capture_ns"]))

    def test_frames_of_a_camera_come_at_the_models_rate_with_their_capture_times(self):
        said = self.captions(*SCENE, *QWEN3, "--clip-frames", 2, "--frames", 6, "--every", 0.3)
        self.assertEqual(len(said[0]["clip"]), 1)
        for one in said[1:]:
            first, second = one["clip"]
            self.assertGreaterEqual(second["seconds"], 0.25)
            self.assertAlmostEqual(second["seconds"], (second["capture_ns"] - first["capture_ns"]) / 1e9, delta=1e-6)
            self.assertEqual(second["sequence"], one["sequence"])

    def test_without_the_flag_each_frame_is_a_picture(self):
        said = self.captions(*SCENE, *QWEN3, "--frames", 2)
        self.assertFalse([one for one in said if "clip" in one])
        self.assertEqual(self.captions("synthetic", *QWEN3, "--frames", 1)[0]["prompt"], "Caption this image.")
        self.assertEqual(self.captions("synthetic", *QWEN3, "--clip-frames", 2, "--frames", 1)[0]["prompt"],
                         "Describe this video.")

    def test_a_pair_takes_the_rows_of_one_picture_in_the_plan_and_in_memory(self):
        out = self.answer("watch", *SCENE, *QWEN3, "--clip-frames", 4, "--memory-frames", 4, "--frames", 1, "--json")
        (end,) = lines_of(out, "end")
        self.assertEqual(end["clips"], {"frames": 4, "fps": 2})
        (planned,) = self.objects("plan", *QWEN3, "--clip-frames", 4, "--image-pixels", f"{WIDTH}x{HEIGHT}",
                                  "--whole-pixels", 1, "--text-tokens", 256 + 6 + 8, "--draft", "auto", "--kept-views", 2)
        self.assertEqual(end["memory"]["total_bytes"], planned["total_bytes"])

    def test_a_question_is_about_the_frames_in_memory_and_their_times(self):
        with Watching(self.frames(4), "--fps", 4, "--loop", *SHORT, *QWEN3, "--clip-frames", 2, "--memory-frames", 4,
                      "--json") as watching:
            watching.wait_for(lambda: len(watching.of_kind("caption")) >= 5)
            watching.type("When did it appear?")
            (answer,) = watching.wait_for(lambda: watching.of_kind("answer"))
            watching.type("/quit")
            self.assertEqual(watching.finish(), OK)
        self.assertEqual((answer["error"], len(answer["frames"])), ("", 4))
        self.assertEqual([frame["seconds"] for frame in answer["frames"]], [0, 0.25, 0.5, 0.75])
        self.assertNotIn("image", answer["text"])

    def test_faults_are_survived_and_no_clip_mixes_sizes(self):
        with Watching(*SCENE, *QWEN3, "--fps", 60, "--clip-frames", 4, "--clip-fps", 20, "--change", 0, "--json",
                      "--faults", "broken@20:2,resize@30:80x60,unplug@50:0.3s,skip@60:5,loop") as watching:
            watching.wait_for(lambda: len(watching.of_kind("caption")) >= 60)
            watching.process.send_signal(signal.SIGTERM)
            self.assertEqual(watching.finish(), OK)
            said, (end,) = watching.of_kind("caption"), watching.of_kind("end")
        self.assertEqual([one["error"] for one in said if one["error"]], [])
        self.assertGreater(end["frames"]["losses"], 0)
        self.assertGreater(end["frames"]["size_changes"], 0)
        for one in said:
            self.assertIn(len(one["clip"]), (1, 2, 4))
            self.assertEqual(self.numbers(one), sorted(self.numbers(one)))

    def test_a_picture_that_cannot_be_read_is_in_no_later_clip(self):
        folder = self.frames(5)
        damaged = bytearray((folder / "1.png").read_bytes())
        damaged[len(damaged) // 2] ^= 255
        (folder / "1.png").write_bytes(damaged)
        said = self.captions(folder, *SHORT, *QWEN3, "--fps", 4, "--clip-frames", 2, "--clip-fps", 4)
        failed = [one["sequence"] for one in said if one["error"]]
        self.assertEqual(failed, [2])
        self.assertEqual([self.numbers(one) for one in said[2:]], [[3], [3, 4], [4, 5]])

    def test_packing_evicting_and_linking_go_together_with_clips(self):
        for flags in (["--kv-bits", 2], ["--evict", "value-window", "--keep", 0.5], ["--reuse", "prefix"],
                      ["--reuse", "carry:4"], ["--library", self.folder / "shelf", "--owner", "ann"]):
            with self.subTest(flags=flags):
                said = self.captions(*SCENE, *QWEN3, "--clip-frames", 4, "--clip-fps", 20, "--change", 0, "--frames", 8,
                                     *flags)
                self.assertEqual([one["error"] for one in said], [""] * 8)
                self.assertEqual(len(said[-1]["clip"]), 4)

    def test_what_does_not_go_together_is_refused_in_one_sentence(self):
        clips = ["--clip-frames", 2]
        for arguments, code, sentence in [
                ([*pair("llava-1.5"), *clips], USAGE, "--clip-frames 2: the model takes no clips"),
                ([*QWEN3, "--clip-frames", 3], USAGE, "--clip-frames 3: .* in pairs; give an even number"),
                ([*QWEN3, "--clip-frames", 1], USAGE, "--clip-frames: 1 is not a number from 2 to 64"),
                ([*QWEN3, "--clip-fps", 2], USAGE, "--clip-fps requires --clip-frames"),
                ([*QWEN3, *clips, "--memory", "rolling"], USAGE, "--clip-frames 2 does not go with --memory rolling"),
                ([*pair("qwen2.5-vl"), *clips, "--reuse", "prefix"], BAD_INPUT,
                 r"plan no reuse \(--reuse\), or no clips \(--clip-frames\)"),
                ([*QWEN3, *clips, "--image-tiles", 4], USAGE, "has frames of one view each"),
                ([*QWEN3, "--clip-frames", 64, "--budget", "1M"], OVER_BUDGET, "more than the budget"),
                (["-m", FAMILIES / "qwen3-vl" / "model.gguf", *clips], USAGE, "no vision part")]:
            with self.subTest(arguments=arguments):
                self.assert_refused(["watch", "synthetic", *arguments], code, sentence)

    @unittest.skipUnless(os.environ.get("OCELLUS_COUNTED"), "a build that counts the library's allocations is not there")
    def test_the_library_allocates_nothing_while_clips_come(self):
        with Watching(*SCENE, *QWEN3, "--fps", 60, "--clip-frames", 4, "--clip-fps", 20, "--change", 0, "--json",
                      program=os.environ["OCELLUS_COUNTED"]) as watching:
            watching.wait_for(lambda: len(watching.of_kind("caption")) >= 40)
            watching.type("What changed?")
            watching.wait_for(lambda: watching.of_kind("answer"))
            watching.type("/quit")
            self.assertEqual(watching.finish(), OK)
        counted = json.loads(watching.err[-1])
        self.assertGreater(counted["library_calls"], 150)
        self.assertEqual(counted["library_allocations"], 0)

    @needs_http
    def test_the_page_gets_clips_and_their_pace(self):
        with Watching(*SCENE, *QWEN3, "--clip-frames", 2, "--http", "127.0.0.1:0") as watching:
            watching.wait_for(lambda: len(watching.get("/api/history?count=9")[1]["records"]) >= 3)
            self.assertEqual(watching.get("/api/state")[1]["clips"], {"frames": 2, "fps": 2})
            newest = watching.get("/api/history?count=1")[1]["records"][0]
            self.assertEqual(self.numbers(newest)[-1], newest["sequence"])

    def test_a_pipe_of_video_is_watched_in_pairs(self):
        done = subprocess.run([PROGRAM, "watch", "-", *map(str, [*SHORT, *QWEN3]), "--clip-frames", "2", "--json"],
                              input=y4m(6, "5:1"), capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertTrue(all("clip" in one for one in lines_of(done.stdout.decode(), "caption")))


if __name__ == "__main__":
    unittest.main()
