"""Shapes without files, and `ocellus make-model`, which writes them as files."""

import os
import resource
import signal
import subprocess
import time
import unittest

from pictures import make_png
from program import PROGRAM, RUNTIME, USAGE, FolderTest, long, without_progress

SHAPE = "SmolVLM-256M"


class ShapeTest(FolderTest):
    def wide(self):
        """A picture that is cut into 5 views; one that is as high as wide into 17, which takes three times as long."""
        path = self.folder / "wide.png"
        path.write_bytes(make_png(256, 64, [bytes(range(256)) * 3] * 64))
        return path


class Shapes(ShapeTest):
    def test_an_unknown_shape_gets_the_nearest_shapes(self):
        for command in ["plan", "bench", "make-model"]:
            self.assert_refused([command, "--shape", "SmolVLM"], USAGE, "`ocellus models` lists, such as SmolVLM-256M,")
            self.assert_refused([command, "--shape", SHAPE, "--format", "Q7_K"], USAGE, "choose one of F32, .*, MXFP4")
        for command in ["plan", "bench"]:
            self.assert_refused([command, "--format", "Q8_0"], USAGE, "--format requires --shape")
            self.assert_refused([command, "--shape", SHAPE, "--model", "x.gguf"], USAGE, "excludes")

    def test_a_picture_for_llava_is_one_view_of_576_rows(self):
        for shape, width in [("LLaVA-1.5-7B", 4096), ("LLaVA-1.5-13B", 5120)]:
            for lean in [[], ["--lean"]]:
                with self.subTest(shape=shape, lean=lean):
                    (plan,) = self.objects("plan", "--shape", shape, "--images", 2, "--device", "cpu", *lean)
                    self.assertEqual(plan["kv_bytes_per_image"], 576 * plan["kv_bytes_per_token"])
                    rows = {row["name"]: row for row in plan["rows"]}
                    self.assertEqual(rows["vision hidden"]["bytes"], (576 + 1) * 1024 * 4)  # and the class row
                    self.assertIn(width, rows["prompt rows"]["shape"])

    @long
    def test_bench_measures_a_shape(self):
        (report,) = self.objects("bench", "--shape", "qwen2.5-0.5b", "--format", "q4_k", "-p", 4, "-n", 2, "-r", 1)
        self.assertIn("Qwen2.5-0.5B, random weights", str(report))
        self.assertIn("tg2", str(report))


class Files(ShapeTest):
    def make(self, *arguments):
        """What is said of the files of a shape with one layer."""
        (made,) = self.objects("make-model", "--shape", SHAPE, "--layers", 1, "--output", self.folder, *arguments)
        return made

    def names(self):
        return sorted(os.listdir(self.folder))

    def test_the_program_runs_on_a_written_pair(self):
        for weight_format in ["F16", "mxfp4"]:
            with self.subTest(format=weight_format):
                made = self.make("--format", weight_format)
                name = f"smolvlm-256m-1-layer-{weight_format.lower()}.gguf"
                self.assertEqual(made["model"], str(self.folder / name))
                self.assertEqual(made["mmproj"], str(self.folder / f"mmproj-{name}"))
                self.assertEqual(made["bytes"], os.path.getsize(made["model"]) + os.path.getsize(made["mmproj"]))
                pair = ["--model", made["model"], "--mmproj", made["mmproj"]]
                (plan,) = self.objects("plan", *pair)
                self.assertEqual(plan["model"], f"{SHAPE}, 1 layer, random weights")
                weights = [row["bytes"] for row in plan["rows"] if row["name"] in ("text weights", "vision weights")]
                self.assertLess(made["bytes"] - sum(weights), 4 << 20)  # headers with a vocabulary
                self.assertGreater(made["bytes"], sum(weights) - 512)
                self.answer("caption", self.wide(), *pair, "-n", 4)
        self.assertEqual(len(self.names()), 5)  # two pairs and a picture: nothing is left over

    @long
    def test_a_whole_written_pair_plans_and_answers_like_the_shape(self):
        (made,) = self.objects("make-model", "--shape", "smolvlm-256m", "--format", "Q4_K", "--output", self.folder)
        pair, shape = ["-m", made["model"], "--mmproj", made["mmproj"]], ["--shape", SHAPE, "--format", "Q4_K"]
        self.assertEqual(self.answer("plan", *pair), self.answer("plan", *shape))
        captions = [self.answer("caption", self.wide(), *model, "-n", 6) for model in (pair, shape)]
        self.assertEqual(captions[0], captions[1])

    def test_files_are_a_matter_of_the_seed(self):
        contents = {}
        for folder, seed in [("one", []), ("two", ["--seed", 1]), ("three", ["--seed", 7])]:
            output = self.folder / folder / "made"
            text = self.answer("make-model", "--shape", "smolvlm-256m", "--layers", 1, "--output", output, *seed)
            mmproj, model = sorted(output.iterdir())
            contents[folder] = [path.read_bytes() for path in (model, mmproj)]
            self.assertRegex(text, rf"\A{model}: {len(contents[folder][0])} bytes \([\d.]+ MiB\)\n{mmproj}: .*\n\Z")
        self.assertEqual(contents["one"], contents["two"])
        for one, three in zip(contents["one"], contents["three"]):
            self.assertNotEqual(one, three)

    def test_files_that_are_there_are_replaced_only_when_told_to(self):
        other = self.folder / "mmproj-smolvlm-256m-1-layer-q8_0.gguf"
        other.write_text("mine")
        command = ["make-model", "--shape", SHAPE, "--layers", 1, "--output", self.folder]
        self.assert_refused(command, USAGE, f"{other} exists: .*--force")
        self.assertEqual((self.names(), other.read_text()), ([other.name], "mine"))
        self.answer(*command, "--force")
        self.assertEqual(len(self.names()), 2)
        self.assertGreater(other.stat().st_size, 1 << 20)

    def test_a_pair_is_replaced_whole_or_not_at_all(self):
        model, mmproj = [self.folder / f"{part}smolvlm-256m-1-layer-q8_0.gguf" for part in ("", "mmproj-")]
        command = ["make-model", "--shape", SHAPE, "--layers", 1, "--output", self.folder, "--force"]
        model.write_text("mine")
        mmproj.mkdir()
        self.assert_refused(command, USAGE, f"{mmproj} is a folder: choose another folder for the files with --output")
        self.assertEqual((self.names(), model.read_text()), ([mmproj.name, model.name], "mine"))

    def test_a_file_that_appears_meanwhile_stays_and_so_does_the_other_half(self):
        mmproj = self.folder / "mmproj-smolvlm-256m-12-layers-q8_0.gguf"
        command = [PROGRAM, "make-model", "--shape", SHAPE, "--layers", "12", "--output", str(self.folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            while not any(name.startswith("mmproj") for name in self.names()):
                self.assertIsNone(program.poll())
                time.sleep(0.001)
            program.send_signal(signal.SIGSTOP)
            mmproj.write_text("mine")
            program.send_signal(signal.SIGCONT)
            output, notes = program.communicate(timeout=60)
        self.assertEqual((program.returncode, output), (USAGE, ""))
        self.assertRegex(without_progress(notes), rf"\Aocellus: {mmproj} exists: [^\n]+\n\Z")
        self.assertEqual((self.names(), mmproj.read_text()), ([mmproj.name], "mine"))

    def test_a_failed_write_is_reported_and_leaves_no_file(self):
        command = ["make-model", "--shape", SHAPE, "--layers", 1, "--output"]
        (self.folder / "file").write_text("")
        self.assert_refused([*command, self.folder / "file"], RUNTIME, "cannot be made: ")
        self.assert_refused([*command, self.folder / ("long" * 75)], RUNTIME, "cannot be written: File name too long; --out")
        if os.geteuid() != 0:
            for mode in (0o500, 0o000):
                self.folder.chmod(mode)
                self.assert_refused([*command, self.folder], RUNTIME, "cannot be written: Permission denied; --output")
            self.folder.chmod(0o700)
        self.assert_refused([*command, "/proc"], RUNTIME, r"cannot be written: \w+.*; --output names another folder")
        # A full disk: no file may grow beyond ten megabytes.
        full = self.folder / "full" / "disk"
        done = subprocess.run([PROGRAM, *map(str, command), full], capture_output=True, text=True, timeout=60, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10 << 20, 10 << 20)))
        self.assertEqual((done.returncode, done.stdout), (RUNTIME, ""))
        self.assertRegex(without_progress(done.stderr),
                         r"\Aocellus: \S+gguf cannot be written: File too large; --output[^\n]+\.\n\Z")
        self.assertEqual(self.names(), ["file"])

    def test_an_interrupted_run_leaves_nothing(self):
        output = self.folder / "made" / "here"
        command = [PROGRAM, "make-model", "--shape", "InternVL2.5-26B", "--format", "F16", "--output", str(output)]
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(signal=number):
                with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
                    while not any(path.stat().st_size > 1 << 20 for path in output.glob("*")):
                        self.assertIsNone(program.poll())
                        time.sleep(0.01)
                    program.send_signal(signal.SIGPIPE)  # does nothing
                    program.send_signal(number)
                    said = program.communicate(timeout=60)
                self.assertEqual((program.returncode, *said), (128 + number, b"", b""))
                self.assertEqual(self.names(), [])

    def test_nohup_keeps_it_writing(self):
        command = ["nohup", PROGRAM, "make-model", "--shape", "InternVL2.5-26B", "--format", "F16", "--output",
                   str(self.folder)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
            while not self.names():
                time.sleep(0.01)
            program.send_signal(signal.SIGHUP)
            with self.assertRaises(subprocess.TimeoutExpired):
                program.wait(0.2)
            program.send_signal(signal.SIGINT)
            self.assertEqual(program.wait(60), 130)

    def test_bad_usage_is_refused_before_anything_is_written(self):
        for arguments, sentence in [
                ([], "--shape is required"), (["--shape", SHAPE, "--layers", 0], "--layers"),
                (["--shape", SHAPE, "--layers", 31], "SmolVLM-256M cannot have 31 layers: choose 1 to 30"),
                (["--shape", SHAPE, "--seed", "many"], "--seed: many is not a whole number"),
                (["--shape", SHAPE, "--seed=-1"], "--seed: -1 is not a whole number from 0 to 18446744073709551615"),
                (["--shape", SHAPE, "--seed", 1 << 64], "--seed: 18446744073709551616 is not a whole number from 0"),
                (["--shape", SHAPE, "--model", "x.gguf"], "unknown flag --model")]:
            with self.subTest(arguments=arguments):
                self.assert_refused(["make-model", *arguments, "--output", self.folder], USAGE, sentence)
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    unittest.main()
