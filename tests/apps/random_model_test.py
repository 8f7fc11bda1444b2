"""Shapes without files, and the tool that writes them as files."""

import os
import re
import subprocess
import sys
import unittest

from pictures import make_png
from program import SOURCE, USAGE, FolderTest, long

TOOL = SOURCE / "tools" / "make_random_model.py"
SHAPES = ["SmolVLM-256M", "SmolVLM-500M", "SmolVLM2-2.2B", "LLaVA-1.5-7B", "LLaVA-1.5-13B", "LLaVA-1.6-Vicuna-7B",
          "LLaVA-1.6-Mistral-7B", "InternVL2.5-8B", "InternVL2.5-26B", "InternVL3-2B", "InternVL3.5-2B",
          "Qwen2.5-0.5B", "Qwen2.5-1.5B"]
FORMATS = ["F16", "Q8_0", "Q4_K"]


def make(*arguments, folder="."):
    """(path, bytes of tensors) of each file that was written, or would be."""
    command = [sys.executable, str(TOOL), *arguments, "--output", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [(path, int(size)) for path, size in re.findall(r"(.+): (\d+) bytes of tensors\n", done.stdout)]


class ShapeTest(FolderTest):
    def wide(self):
        """A picture that is cut into 5 views; one that is as high as wide into 17, which takes three times as long."""
        path = self.folder / "wide.png"
        path.write_bytes(make_png(256, 64, [bytes(range(256)) * 3] * 64))
        return path


class Shapes(ShapeTest):
    def weights(self, *arguments):
        """Bytes of each file's tensors, from the plan."""
        (plan,) = self.objects("plan", *arguments)
        return [row["bytes"] for row in plan["rows"] if row["name"] in ("text weights", "vision weights")]

    @long
    def test_the_program_and_the_tool_agree_on_every_shape(self):
        for shape in SHAPES:
            for weight_format in FORMATS:
                with self.subTest(shape=shape, format=weight_format):
                    planned = self.weights("--shape", shape.upper(), "--format", weight_format)
                    written = [size for _, size in make(shape, "--format", weight_format, "--dry-run")]
                    self.assertEqual(len(planned), len(written))
                    for in_plan, in_file in zip(planned, written):
                        self.assertAlmostEqual(in_plan, in_file, delta=256)  # what rows of the plan are aligned to

    def test_an_unknown_shape_gets_the_list_of_shapes(self):
        for command in ["plan", "bench"]:
            self.assert_refused([command, "--shape", "SmolVLM"], USAGE, "choose one of SmolVLM-256M, .*Qwen2.5-1.5B")
            self.assert_refused([command, "--shape", SHAPES[0], "--format", "Q7_K"], USAGE, "choose one of F32, .*, MXFP4")
            self.assert_refused([command, "--format", "Q8_0"], USAGE, "--format requires --shape")
            self.assert_refused([command, "--shape", SHAPES[0], "--model", "x.gguf"], USAGE, "excludes")

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
    def test_a_caption_needs_no_files_either(self):
        self.answer("caption", self.wide(), "--shape", "smolvlm-256m", "--format", "Q4_K", "-n", 4)

    @long
    def test_bench_measures_a_shape(self):
        (report,) = self.objects("bench", "--shape", "qwen2.5-0.5b", "--format", "q4_k", "-p", 4, "-n", 2, "-r", 1)
        self.assertIn("Qwen2.5-0.5B, random weights", str(report))
        self.assertIn("tg2", str(report))


class Files(ShapeTest):
    @long
    def test_the_program_runs_on_a_written_pair(self):
        for weight_format in ["F16", "Q4_K"]:
            with self.subTest(format=weight_format):
                files = make("smolvlm-256m", "--format", weight_format, "--layers", "1", folder=self.folder)
                (model, model_bytes), (mmproj, mmproj_bytes) = files
                for path, tensor_bytes in files:
                    self.assertTrue(0 < os.path.getsize(path) - tensor_bytes < 4 << 20, path)
                (plan,) = self.objects("plan", "--model", model, "--mmproj", mmproj)
                weights = [row["bytes"] for row in plan["rows"] if row["name"] in ("text weights", "vision weights")]
                self.assertAlmostEqual(weights[0], model_bytes, delta=256)
                self.assertAlmostEqual(weights[1], mmproj_bytes, delta=256)
                self.assertEqual(plan["model"], "SmolVLM-256M, random weights")
                self.answer("caption", self.wide(), "--model", model, "--mmproj", mmproj, "-n", 4)

    def test_the_same_arguments_give_the_same_bytes(self):
        contents = []
        for part in ["one", "two"]:
            folder = self.folder / part
            ((path, _),) = make("Qwen2.5-0.5B", "--format", "Q8_0", "--layers", "1", folder=folder)
            with open(path, "rb") as file:
                contents.append(file.read())
        self.assertEqual(contents[0], contents[1])


if __name__ == "__main__":
    unittest.main()
