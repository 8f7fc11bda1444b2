"""The command line: answers, JSON, exit codes and the sentences that go with them."""

import json
import math
import os
import pathlib
import re
import resource
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zlib

from pictures import few_colors, flat_jpeg, make_bmp, make_gif, make_png, read_png, without_tables
from program import (BAD_INPUT, BOARDS, GREEN_STAR, MMPROJ, MODEL, OK, OVER_BUDGET, PROGRAM, RUNTIME, SOURCE, USAGE,
                     FolderTest, ProgramTest, board, goldens, long, needs_webp, run)
from webp import lossless_webp


class Answers(ProgramTest):
    def test_caption_of_one_picture_is_just_the_caption(self):
        done = run("caption", board("113"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (OK, GREEN_STAR + "\n", ""))

    def test_captions_of_several_pictures_are_named(self):
        lines = self.answer("caption", board("113"), board("063")).splitlines()
        self.assertEqual(lines[0], f"{board('113')}: {GREEN_STAR}")
        self.assertEqual(lines[1], f"{board('063')}: A large black circle at the top left and a large red triangle at "
                                   "the bottom, on a teal background.")

    def test_a_picture_is_captioned_alike_alone_and_after_another(self):
        lines = self.answer("caption", board("063"), board("113")).splitlines()
        self.assertEqual(lines[1], f"{board('113')}: {GREEN_STAR}")

    @long
    def test_golden_questions_are_answered(self):
        right = 0
        questions = goldens()
        for question in questions:
            pictures = [BOARDS / path for path in question["images"]]
            right += self.answer("ask", "--prompt", question["prompt"], *pictures).strip() == question["text"]
        self.assertGreaterEqual(right, len(questions) - 1)

    def test_pictures_without_a_mark_go_first_in_the_trained_form(self):
        four = next(question for question in goldens() if question["n"] == 4)
        pictures = [BOARDS / path for path in four["images"]]
        question = four["prompt"].split("\n")[-1]
        self.assertEqual(self.answer("ask", "--prompt", question, *pictures),
                         self.answer("ask", "--prompt", four["prompt"], *pictures))
        self.assertEqual(self.answer("ask", "--prompt", "What is on the left?", board("115")), "A large cyan star.\n")

    def test_a_question_needs_no_picture(self):
        self.answer("ask", "--prompt", "Hello.", "-n", 4)

    def test_an_answer_ends_after_n_tokens(self):
        (one,) = self.objects("ask", "--prompt", "Describe this image.", board("113"), "-n", 3)
        self.assertEqual((one["generated_tokens"], one["stop"]), (3, "length"))

    def test_sampling_follows_the_seed(self):
        arguments = ["ask", "--prompt", "Describe this image.", board("113"), "--temp", 2.5]
        self.assertEqual(self.answer(*arguments, "--seed", 7), self.answer(*arguments, "--seed", 7))
        self.assertGreater(len({self.answer(*arguments, "--seed", seed) for seed in range(4)}), 1)

    def test_every_sampling_flag_has_its_effect(self):
        sampled = ["caption", "--temp", 2, "--seed", 3]
        for flags in [("--frequency-penalty", 5), ("--presence-penalty", 5), ("--top-n-sigma", 0.5),
                      ("--typical-p", 0.1), ("--dry-multiplier", 9, "--dry-allowed-length", 1), ("--logit-bias", "99=30")]:
            self.assertNotEqual(self.answer(*sampled, *flags, board("113")), self.answer(*sampled, board("113")), flags)

    def test_choices_are_ordered_by_their_probability(self):
        asked = ["ask", "--prompt", "What is on the left?", board("115"), "--choices"]
        self.assertRegex(self.answer(*asked, "no, A large cyan star."), r"\AA large cyan star\. +[01]\.\d+\nno +0\.\d+\n\Z")
        (one,) = self.objects(*asked, "a, b", "--choices", "A large cyan star.")
        self.assertEqual([choice["choice"] for choice in one["choices"]], ["A large cyan star.", "a, b"])
        self.assertAlmostEqual(sum(choice["probability"] for choice in one["choices"]), 1)
        self.assertNotIn("stop", one)
        for choices, is_told in [("yes,no", True), ("no, A large cyan star.", False)]:
            self.assertEqual("unlikely to answer with any of these" in run(*asked, choices).stderr, is_told)

    def test_log_probabilities_of_an_answer(self):
        asked = ["ask", "--prompt", "What is on the left?", board("115"), "--logprobs", 2]
        (one,) = self.objects(*asked)
        self.assertEqual("".join(token["token"] for token in one["logprobs"]).strip(), one["answer"])
        mean = sum(token["top"][0]["logprob"] for token in one["logprobs"]) / len(one["logprobs"])
        self.assertAlmostEqual(one["perplexity"], math.exp(-mean))
        self.assertRegex(self.answer(*asked), r'\AA large cyan star.\n\n" A" .*\n(.*\n)+perplexity 1\.')

    def test_threads_do_not_change_the_answer(self):
        self.assertEqual(self.answer("caption", board("113"), "--threads", 1), GREEN_STAR + "\n")


class Json(ProgramTest):
    def test_caption_prints_one_object_per_picture(self):
        first, second = self.objects("caption", board("113"), board("115"))
        self.assertEqual((first["image"], first["answer"], first["stop"]), (board("113"), GREEN_STAR, "end"))
        self.assertEqual(second["image"], board("115"))
        for key in ["prompt_tokens", "generated_tokens", "encode_ms", "ttft_ms", "kv_bytes", "arena_bytes"]:
            self.assertGreater(first[key], 0, key)
        self.assertEqual(first["image_tokens"], 64)

    def test_a_path_that_is_not_utf8_gives_valid_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(os.fsencode(folder), b"\xff.png")
            pathlib.Path(os.fsdecode(path)).write_bytes(pathlib.Path(board("113")).read_bytes())
            done = subprocess.run([PROGRAM, "caption", "--json", path], capture_output=True, timeout=60, check=True)
            self.assertEqual(json.loads(done.stdout.decode())["answer"], GREEN_STAR)

    def test_bench_names_its_rows_as_llama_bench_does(self):
        (bench,) = self.objects("bench", "-p", 32, "-n", 8, "-d", 16, "-r", 2)
        rows = {row["test"]: row for row in bench["rows"]}
        for name in ["pp32", "tg8", "pp32 @ d16", "tg8 @ d16"]:
            self.assertGreater(rows[name]["mean"], 0)
            self.assertEqual((rows[name]["unit"], len(rows[name]["samples"])), ("tokens/s", 2))
        for name in ["image encode", "1 image prefill", "TTFT text", "TTFT 1 image, cold", "load"]:
            self.assertGreater(rows[name]["mean"], 0, name)
        self.assertEqual(rows["image tokens"]["mean"], 64)

    def test_bench_prints_tables(self):
        arguments = ["bench", "-p", 16, "-n", 4, "-r", 1, board("113")]
        self.assertRegex(self.answer(*arguments), r"\| pp16 +\| +[\d.]+ \| tokens/s \|")
        self.assertRegex(self.answer(*arguments, "--output", "csv"), r'"tg4",tokens/s,[\d.]+,0.000000,1\n')

    def test_devices_names_the_processor(self):
        (devices,) = self.objects("devices")
        self.assertGreater(devices["devices"][0]["cores"], 0)
        self.assertIn(devices["cuda"], ["not built in", "no device found"])

    def test_models_lists_what_can_be_read_with_the_memory_of_plans(self):
        (listed,) = self.objects("models")
        self.assertEqual(listed["pictures"], [1, 8])
        models = {model["name"]: model for model in listed["models"]}
        small = models["SmolVLM-256M"]
        self.assertEqual((small["family"], small["files"]), ("SmolVLM", "SmolVLM-256M-Instruct-*.gguf"))
        for format_name, (one, eight) in small["memory"].items():
            self.assertEqual(one["image_tiles"], 0)  # the model's own
            plan = ["plan", "--device", "cpu", "--shape", "SmolVLM-256M", "--format", format_name, "--images", 8,
                    "--image-tiles", eight["image_tiles"], "--image-pixels", "1920x1080"]
            (planned,) = self.objects(*plan)
            self.assertEqual(planned["total_bytes"], eight["bytes"])
        self.assertEqual(models["LLaVA-1.5-7B"]["memory"]["F16"][1], None)  # 4,096 positions
        self.assertFalse(models["Qwen2.5-0.5B"]["vision"])
        table = self.answer("models")
        self.assertRegex(table, r"\nInternVL3-2B +InternVL +ggml-org/InternVL3-2B-Instruct-GGUF +\d")
        self.assertRegex(table, r"\nGemma4-E2B +Gemma4 +\(convert\) google/gemma-4-E2B-it +\d")
        self.assertRegex(table, r"`ocellus models --published`\.\n\Z")

    def test_models_published_have_sizes_licences_and_memory(self):
        (listed,) = self.objects("models", "--published")
        (everything,) = self.objects("models")
        self.assertEqual(listed["models"], [model for model in everything["models"] if model["gguf_repository"]])
        self.assertEqual([model for model in everything["models"] if ("licence" in model) != bool(model["gguf_repository"])], [])
        models = {model["name"]: model for model in listed["models"]}
        self.assertEqual({model["licence"] for model in models.values()}, {"apache-2.0", "qwen-research", "gemma"})
        # As the repository's page lists its files: 4.13 and 2.49 GB, and 851 MB in F16.
        for format_name, published in [("Q8_0", 4.13e9 + 0.851e9), ("Q4_K_M", 2.49e9 + 0.851e9)]:
            self.assertAlmostEqual(models["Gemma3-4B"]["file_bytes"][format_name] / published, 1, delta=0.01)
        self.assertRegex(self.answer("models", "--published"),
                         r"\nGemma3-4B +gemma +4\.9\d +4\.97 / 5\.05 +3\.3\d +3\.45 / 3\.52  ggml-org/gemma-3-4b-it-GGUF\n")

    def test_a_file_that_cannot_be_read_says_which_is_nearest(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, hint in [("SmolVLM3-3B-Instruct-Q8_0.gguf", "the nearest by name is SmolVLM"), ("xyz.gguf", "read.$")]:
                path = pathlib.Path(folder) / name
                key, value = b"general.architecture", b"mamba"
                path.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + struct.pack("<Q", len(key)) + key +
                                 struct.pack("<IQ", 8, len(value)) + value + bytes(64))
                self.assert_refused(["caption", "-m", path, board("113")], BAD_INPUT,
                                    f"'mamba' is not supported: .*; `ocellus models` lists what .*{hint}")


class Perplexity(FolderTest):
    def file(self, text):
        path = self.folder / "text.txt"
        path.write_text(text)
        return path

    @long
    def test_windows_and_their_sum(self):
        path = self.file("A large cyan star at the top left, on a gray background. " * 60)
        *windows, summary = self.objects("perplexity", path, "--tokens", 500, "--window", 200, "--context", 50)
        self.assertEqual([window["forced_tokens"] for window in windows], [150, 150, 50])
        nll = sum(window["nll"] for window in windows)
        self.assertAlmostEqual(summary["nll"], nll, places=3)
        self.assertAlmostEqual(summary["perplexity"], math.exp(nll / 350), places=4)
        self.assertGreater(summary["perplexity"], 1)
        self.assertEqual((summary["windows"], summary["prompt_tokens"]), (3, 150))
        self.assertRegex(self.answer("perplexity", path), r"perplexity +[0-9.]+\n")

    def test_eviction_acts_on_text(self):
        path = self.file("A large cyan star at the top left, on a gray background. " * 60)
        flags = ["--tokens", 400, "--window", 400, "--context", 300]
        exact = self.objects("perplexity", path, *flags)[-1]
        cut = self.objects("perplexity", path, *flags, "--evict", "snapkv", "--keep", 0.2)[-1]
        self.assertEqual(exact["kv_bytes"], exact["kv_bytes_full"])
        self.assertEqual(cut["kv_bytes_full"], exact["kv_bytes"])
        self.assertLess(cut["kv_bytes"], exact["kv_bytes"] / 2)
        self.assertNotEqual(cut["perplexity"], exact["perplexity"])

    def test_texts_that_cannot_be_measured_are_refused(self):
        path = self.file("A star.")
        self.assert_refused(["perplexity", path], BAD_INPUT, "all of which a --context of 512 takes")
        self.assert_refused(["perplexity", path, "--context", 1024], USAGE, "--context must be less than --window")
        self.assert_refused(["perplexity", self.file("")], BAD_INPUT, "empty")
        self.assert_refused(["perplexity", "none.txt"], BAD_INPUT, "none.txt")
        self.assert_refused(["perplexity", self.file("word " * 40000), "--window", 40000, "--tokens", 40000], OVER_BUDGET,
                            "but the model has")


class Eval(FolderTest):
    def file(self, *lines):
        path = self.folder / "questions.jsonl"
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return path

    @staticmethod
    def question(answer="A large cyan star.", pictures=1, **others):
        images = [board("115"), board("113")][:pictures]
        return {"images": images, "prompt": "<image>" * pictures + "What is on the left?", "answer": answer,
                "kind": "at", "n": pictures, **others}

    def test_accuracy_counts_trimmed_exact_matches(self):
        path = self.file(self.question(" A large cyan star.\n"), self.question("a large cyan star.", kind="other"))
        first, second, summary = self.objects("eval", path)
        self.assertEqual((first["exact"], second["exact"]), (True, False))
        self.assertEqual((summary["questions"], summary["exact"], summary["accuracy"]), (2, 1, 0.5))
        self.assertEqual(summary["by_kind"]["at"], {"questions": 1, "exact": 1, "accuracy": 1.0})
        keys = {"questions", "exact", "accuracy", "by_kind", "by_images", "kv_bytes", "kv_scale_bytes",
                "kv_waste_bytes", "kv_visual_bits", "kv_bytes_full", "arena_bytes", "ttft_ms", "decode_tok_s", "policy"}
        self.assertEqual(set(summary), keys)
        self.assertGreater(summary["kv_bytes"], 0)

    def test_perplexity_tells_a_probable_answer_from_an_improbable_one(self):
        path = self.file(self.question(), self.question("A small red ring.", kind="other"))
        first, second, summary = self.objects("eval", path, "--perplexity")
        self.assertEqual((first["exact"], second["exact"]), (True, False))
        self.assertGreater(second["nll"], first["nll"] + 5)
        self.assertGreater(first["nll"], 0)
        tokens = first["forced_tokens"] + second["forced_tokens"]
        self.assertEqual(summary["forced_tokens"], tokens)
        self.assertAlmostEqual(summary["perplexity"], math.exp((first["nll"] + second["nll"]) / tokens), places=4)
        self.assertAlmostEqual(summary["by_kind"]["at"]["perplexity"],
                               math.exp(first["nll"] / first["forced_tokens"]), places=6)
        plain = self.objects("eval", path)[-1]
        for key in ["exact", "kv_bytes", "kv_bytes_full"]:
            self.assertEqual(plain[key], summary[key])
        self.assertRegex(self.answer("eval", path, "--perplexity"),
                         r"perplexity of the expected answers +[0-9.]+ over [0-9]+ tokens")

    def test_an_answer_is_chosen_by_its_probability(self):
        path = self.file(self.question(choices=["yes", "A large cyan star."]),
                         self.question("no.", choices=["A large cyan star.", "no."]))
        chosen = self.objects("eval", path)[-1]["by_choice"]
        self.assertEqual((chosen["questions"], chosen["exact"], round(chosen["probability"], 1)), (2, 1, 0.5))

    def test_questions_are_chosen_by_their_pictures_and_counted(self):
        path = self.file(self.question(), self.question(pictures=2), self.question())
        self.assertEqual(self.objects("eval", path, "--per-question", 1)[-1]["by_images"].keys(), {"1"})
        self.assertEqual(self.objects("eval", path, "--limit", 2)[-1]["questions"], 2)
        self.assertRegex(self.answer("eval", path), r"all +3 ")

    def test_paths_are_relative_to_the_file(self):
        (self.folder / "a.png").write_bytes(pathlib.Path(board("115")).read_bytes())
        path = self.file(self.question(images=["a.png"]))
        self.assertEqual(self.objects("eval", path)[-1]["exact"], 1)

    def test_a_malformed_line_is_named(self):
        good = self.question()
        for bad, sentence in [("{", "not a JSON object"), ("[]", "not a JSON object"),
                              ('{"images": []}', '"prompt" is missing'),
                              ({**good, "images": "a.png"}, '"images" is not a list'),
                              ({**good, "answer": 3}, '"answer" is not a text'),
                              ({**good, "choices": ["no"]}, '"choices" is not a list of texts with "answer"'),
                              ({**good, "images": []}, "1 <image> mark for 0 pictures"),
                              ({**good, "images": ["none.png"]}, "none.png: the file cannot be opened"),
                              ("\x00\xff", "not a JSON object")]:
            with self.subTest(bad=bad):
                self.assert_refused(["eval", self.file(good, bad)], BAD_INPUT, f"line 2: .*{re.escape(sentence)}")

    def test_files_without_questions_are_refused(self):
        self.assert_refused(["eval", self.file("")], BAD_INPUT, "there is no question")
        self.assert_refused(["eval", self.file(self.question()), "--per-question", 3], BAD_INPUT,
                            "no question with 3 pictures")


def exif(orientation):
    return b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x112, 3, 1, orientation, 0, 0)


def with_exif(name, orientation):
    """The board with EXIF behind its header."""
    png, body = pathlib.Path(board(name)).read_bytes(), b"eXIf" + exif(orientation)
    return png[:33] + struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body)) + png[33:]


class Photos(ProgramTest):
    def file(self, data, suffix):
        file = tempfile.NamedTemporaryFile(suffix=suffix)
        self.addCleanup(file.close)
        file.write(data)
        file.flush()
        return file.name

    def scratch(self, *arguments):
        return self.objects("plan", *arguments)[0]["scratch_bytes"]

    def test_a_photo_of_12_megapixels_is_planned_in_less_than_12_mb_and_described_by_default(self):
        if self.scratch("--image-pixels", "4000x3000") > 100_000_000:
            self.skipTest("this build holds JPEGs whole")
        self.assertLess(self.scratch("--image-pixels", "4000x3000"), 12_000_000)
        for orientation in (1, 6):
            photo = self.file(flat_jpeg(4000, 3000, exif=exif(orientation)), ".jpg")
            self.assertTrue(self.answer("caption", photo).strip())

    def test_the_scratch_of_photos_decoded_as_a_whole_is_planned_from_their_files(self):
        for sampling in (0x22, 0x11):
            photo = self.file(flat_jpeg(4000, 3000, frame=0xC2, sampling=sampling), ".jpg")
            (answer,) = self.objects("caption", photo)
            self.assertTrue(answer["answer"])
            needed = answer["arena_bytes"]
            self.assertGreater(needed, 3 * 4000 * 3000)
            self.assertTrue(self.answer("caption", photo, "--budget", needed).strip())
            self.assert_refused(["caption", photo, "--budget", needed - 1], OVER_BUDGET, f"needs {needed} bytes")
        if self.scratch("--image-pixels", "4000x3000") > 100_000_000:
            self.skipTest("this build holds JPEGs whole")
        refused = run("caption", photo, "--whole-pixels", "1920x1080")
        self.assertEqual(refused.returncode, OVER_BUDGET)
        self.assertRegex(refused.stderr, "4000 x 3000 progressive JPEG .*--whole-pixels.*save it as baseline JPEG")
        pixels = re.search(r"plan for (\d+) whole pixels", refused.stderr)[1]
        self.assertEqual(self.objects("caption", photo, "--whole-pixels", pixels)[0]["arena_bytes"], needed)
        self.assert_refused(["caption", photo, "--whole-pixels", "many"], USAGE, "--whole-pixels many: write WIDTHx")
        (plain,) = self.objects("caption", self.file(flat_jpeg(4000, 3000), ".jpg"))
        self.assertLess(plain["arena_bytes"], needed - 2 * 4000 * 3000)

    def test_a_picture_is_turned_as_its_exif_says(self):
        upright = self.answer("caption", self.file(with_exif("113", 1), ".png"))
        self.assertEqual(upright.strip(), GREEN_STAR)
        self.assertNotEqual(self.answer("caption", self.file(with_exif("113", 3), ".png")), upright)
        self.assertEqual(self.answer("caption", self.file(with_exif("113", 9), ".png")), upright)

    @needs_webp
    def test_a_webp_is_described_like_a_png_of_its_pixels(self):
        width, height, pixels = read_png(pathlib.Path(board("113")))
        webp = lossless_webp(width, height, pixels)
        picture = self.file(webp, ".webp")
        self.assertEqual(self.answer("caption", picture).strip(), GREEN_STAR)
        self.assertEqual(self.answer("caption", self.file(lossless_webp(width, height, pixels, exif(1)), ".webp")).strip(),
                         GREEN_STAR)
        upside_down = b"".join(pixels[i:i + 3] for i in range(len(pixels) - 3, -1, -3))
        turned = self.file(lossless_webp(width, height, upside_down, exif(3)), ".webp")
        self.assertEqual(self.answer("caption", turned).strip(), GREEN_STAR)
        self.assert_refused(["caption", self.file(webp[:-10], ".webp")], BAD_INPUT, "truncated or damaged")
        animated = lossless_webp(8, 8, bytes(192), exif(1)).replace(struct.pack("<IB", 10, 8), struct.pack("<IB", 10, 2))
        self.assert_refused(["caption", self.file(animated, ".webp")], BAD_INPUT, "the WebP is animated")

    def test_a_board_is_the_same_in_every_format(self):
        width, height, pixels = read_png(pathlib.Path(board("113")))
        pixels = few_colors(pixels)
        rows = [pixels[3 * width * y:3 * width * (y + 1)] for y in range(height)]
        expected = self.answer("caption", self.file(make_png(width, height, rows), ".png"))
        self.assertIn("green star at the top left", expected)
        for file, ending in ((make_bmp(width, height, pixels), ".bmp"), (make_gif(width, height, [pixels]), ".gif")):
            self.assertEqual(self.answer("caption", self.file(file, ending)), expected)
            self.assert_refused(["caption", self.file(file[:-900], ending)], BAD_INPUT, "truncated")
        self.assert_refused(["caption", self.file(b"\0\0\0\x18ftypheic" + bytes(12), ".heic")], BAD_INPUT, "a HEIC file")

    def test_a_camera_s_jpeg_without_huffman_tables_is_read(self):
        whole = (SOURCE / "apps/samples/board_01.jpg").read_bytes()
        bare = without_tables(whole)
        self.assertLess(len(bare), len(whole) - 400)
        answers = {self.answer("caption", self.file(jpeg, ".jpg")) for jpeg in (whole, bare)}
        self.assertEqual(len(answers), 1)
        self.assertEqual(self.answer("ask", "--prompt", "What is on the left?", self.file(bare, ".jpg")),
                         self.answer("ask", "--prompt", "What is on the left?", self.file(whole, ".jpg")))

    def test_sides_beyond_8192_are_read_by_rows(self):
        for width, height in ((20001, 120), (64, 8193)):
            panorama = self.file(flat_jpeg(width, height), ".jpg")
            (answer,) = self.objects("caption", panorama, "-n", 4)
            (small,) = self.objects("caption", self.file(flat_jpeg(1920, 1080), ".jpg"), "-n", 4)
            self.assertLess(answer["arena_bytes"], small["arena_bytes"] + 4_000_000)
            self.assert_refused(["caption", panorama, "--image-side", 8192], OVER_BUDGET, r"plan for longer sides \(--image-side\)")
        self.assert_refused(["plan", "--image-side", 65501], USAGE, "--image-side")
        self.assertIn("and sides of 16384", self.answer("plan", "--image-side", 16384))

    def test_a_picture_comes_from_standard_input_by_any_of_its_names(self):
        png = pathlib.Path(board("113")).read_bytes()
        for name in ("-", "/dev/stdin", "/dev/fd/0"):
            for command in (["caption"], ["ask", "--prompt", "Describe this image."]):
                done = subprocess.run([PROGRAM, *command, name], input=png, capture_output=True, timeout=120, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.decode().strip(), GREEN_STAR)
            with open(board("113"), "rb") as file:
                done = subprocess.run([PROGRAM, "caption", name], stdin=file, capture_output=True, timeout=120, check=False)
            self.assertEqual(done.stdout.decode().strip(), GREEN_STAR)
        (first, second) = subprocess.run([PROGRAM, "caption", "-", "-"], input=png, capture_output=True, timeout=120,
                                         check=True, text=False).stdout.decode().strip().splitlines()[-2:]
        self.assertIn(GREEN_STAR, first + second)
        done = subprocess.run([PROGRAM, "caption", "-"], input=b"", capture_output=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stderr.decode()), (BAD_INPUT, "ocellus: -: it has no bytes.\n"))
        done = subprocess.run([PROGRAM, "chat"], input=b"/image -\n", capture_output=True, timeout=120, check=False)
        self.assertIn(b"what you write comes from there", done.stderr)

    def test_a_jpeg_with_damaged_data_is_refused(self):
        whole = (BOARDS.parents[2] / "apps/samples/board_01.jpg").read_bytes()
        self.assert_refused(["caption", self.file(whole[:len(whole) // 2] + b"\xFF\xD9", ".jpg")], BAD_INPUT,
                            "the JPEG is damaged")


class Chat(ProgramTest):
    def test_piped_messages_are_answered_line_by_line(self):
        done = run("chat", board("115"), "--quiet", stdin="What is on the left?\n/reset\n"
                   f"/image {board('113')}\nCaption this image.\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (OK, f"A large cyan star.\n{GREEN_STAR}\n", ""))

    def test_a_failed_turn_does_not_end_a_piped_chat_whose_exit_code_is_that_of_the_first_failure(self):
        with tempfile.NamedTemporaryFile(suffix=".png") as damaged:
            damaged.write(pathlib.Path(board("115")).read_bytes()[:200])
            damaged.flush()
            done = run("chat", "--quiet", stdin="/image none.png\n/nonsense\nWhat is <image>?\n"
                       f"/image {damaged.name}\n"
                       f"/image {board('115')}\nWhat is on the left?\n/quit\nnever read\n")
        self.assertEqual(done.returncode, BAD_INPUT)
        self.assertEqual(done.stdout, "A large cyan star.\n")
        self.assertEqual(run("chat", stdin="/nonsense\n/image none.png\n").returncode, USAGE)
        self.assertEqual(len(done.stderr.splitlines()), 4, done.stderr)

    def test_a_turn_that_does_not_fit_is_forgotten_and_the_conversation_stays(self):
        done = run("chat", board("115"), "--quiet", "--images", 1, "--text-tokens", 64, "-n", 12,
                   stdin="What is on the left?\n" + "very " * 200 + "long\nWhat is on the left?\n/stats\n")
        self.assertEqual(done.returncode, OVER_BUDGET)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], "A large cyan star.")
        self.assertRegex(done.stdout, r"pictures in the conversation +1\n")

    def test_help_and_stats_are_printed(self):
        text = self.answer("chat", stdin="/help\n/stats\n")
        self.assertRegex(text, r"/image PATH")
        self.assertRegex(text, r"memory of the engine +\d+ bytes")

    def test_more_pictures_than_planned_are_refused_in_the_turn(self):
        done = run("chat", board("113"), "--images", 1, "--quiet", stdin="Caption this image.\n"
                   f"/image {board('115')}\nWhat is on the left?\n")
        self.assertEqual((done.returncode, done.stdout), (OVER_BUDGET, GREEN_STAR + "\n"))
        self.assertEqual(len(done.stderr.splitlines()), 1)


class BadInput(FolderTest):
    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def test_pictures_that_are_none(self):
        picture = pathlib.Path(board("113")).read_bytes()
        for path, sentence in [("none.png", "No such file"), (self.folder, "directory"),
                               (self.file("empty.png", b""), "empty"), (self.file("text.png", b"hello " * 99), "text"),
                               (self.file("head.png", picture[:20]), "head"),
                               (self.file("part.png", picture[:900]), "truncated"),
                               ("/dev/null", "not a regular file")]:
            for command in [["caption"], ["ask", "--prompt", "What is it?"]]:
                with self.subTest(path=path, command=command):
                    self.assert_refused([*command, path], BAD_INPUT, sentence)

    def test_models_that_are_none(self):
        for path, sentence in [("none.gguf", "No such file"), (self.folder, "directory"),
                               (self.file("empty.gguf", b""), "is empty"),
                               (self.file("text.gguf", b"hello " * 99), "not a GGUF file"),
                               (self.file("part.gguf", MODEL.read_bytes()[:5000]), "bytes are left in the file")]:
            with self.subTest(path=path):
                self.assert_refused(["caption", board("113"), "-m", path, "--mmproj", MMPROJ], BAD_INPUT, sentence)
                self.assert_refused(["plan", "-m", MODEL, "--mmproj", path], BAD_INPUT, sentence)

    def test_the_wrong_pair_of_model_and_mmproj(self):
        self.assert_refused(["plan", "-m", MMPROJ, "--mmproj", MODEL], BAD_INPUT, "mmproj file, not a language model")
        self.assert_refused(["plan", "-m", MODEL, "--mmproj", MODEL], BAD_INPUT, "not an mmproj file")

    def test_an_mmproj_of_another_width_is_named(self):
        """The projector's width is written in a key; a pair that disagrees must not load."""
        key = b"clip.vision.projection_dim"
        content = bytearray(MMPROJ.read_bytes())
        at = content.find(key)
        self.assertGreater(at, 0)
        value = at + len(key) + 4  # past the value's type
        content[value:value + 4] = (int.from_bytes(content[value:value + 4], "little") + 64).to_bytes(4, "little")
        other = self.file("other.gguf", content)
        self.assert_refused(["plan", "-m", MODEL, "--mmproj", other], BAD_INPUT, "other.gguf")

    def test_a_vocabulary_without_the_tokens_around_pictures_is_no_half_of_the_pair(self):
        content = MODEL.read_bytes()
        self.assertEqual(content.count(b"<global-img>"), 1)
        other = self.file("other.gguf", content.replace(b"<global-img>", b"<global~img>"))
        for command in (["plan"], ["caption", board("113")]):
            self.assert_refused([*command, "-m", other, "--mmproj", MMPROJ], BAD_INPUT,
                                r"other\.gguf: tokenizer\.ggml\.tokens has no '<global-img>', which SmolVLM writes around "
                                r"pictures: the two files are not a pair")

    def test_pictures_need_a_vision_part(self):
        self.assert_refused(["caption", board("113"), "-m", MODEL], USAGE, "--mmproj")
        self.answer("ask", "--prompt", "Hello.", "-n", 2, "-m", MODEL)


class Limits(FolderTest):
    def test_no_pictures(self):
        self.assert_refused(["caption"], USAGE, "IMAGE is required")

    def test_a_thousand_pictures(self):
        self.assert_refused(["ask", "--prompt", "How many?", *[board("113")] * 1000], OVER_BUDGET,
                            "1000 pictures .* but the model has 8192")

    def test_a_thousand_captions_need_the_memory_of_one(self):
        (one,) = self.objects("caption", board("113"))
        done = run("caption", "--budget", one["arena_bytes"] - 1, *[board("113")] * 1000)
        self.assertEqual(done.returncode, OVER_BUDGET)
        self.assertRegex(done.stderr, f"needs {one['arena_bytes']} bytes")

    def test_a_prompt_longer_than_the_plan(self):
        self.assert_refused(["ask", "--text-tokens", 16, "--prompt", "very " * 300 + "long"], OVER_BUDGET, "text")

    def test_a_choice_longer_than_the_plan(self):
        self.assert_refused(["ask", "--prompt", "?", "--text-tokens", 40, "--choices", "a," + "b " * 99], OVER_BUDGET,
                            "plan more text tokens")

    def test_a_prompt_longer_than_the_context(self):
        self.assert_refused(["ask", "--prompt", "very " * 20000], OVER_BUDGET, "but the model has 8192")

    def test_more_pictures_than_the_plan(self):
        self.assert_refused(["ask", "--images", 1, "--prompt", "What?", board("113"), board("115")], OVER_BUDGET,
                            "115.png: .*planned 1 images")

    def test_an_answer_that_fills_the_plan_says_so(self):
        for command in [["caption"], ["ask", "--prompt", "Describe this image."]]:
            done = run(*command, board("113"), "--text-tokens", 4)
            self.assertEqual(done.returncode, OK)
            self.assertRegex(done.stderr, r"\AThe answer ends here .*--text-tokens\.\n\Z")
            self.assertEqual(run(*command, board("113"), "--text-tokens", 4, "--quiet").stderr, "")

    def test_an_answer_that_fills_the_model_says_so(self):
        key = b"llama.context_length\x04\0\0\0"
        model = self.changed_model(key + b"\0\x20\0\0", key + b"\x5a\0\0\0")
        done = run("caption", *model, board("113"))
        self.assertEqual(done.returncode, OK)
        self.assertEqual(done.stderr, "The answer ends here because the model's 90 positions are used up.\n")

    def test_more_text_tokens_than_the_model_has_positions_are_remarked_on(self):
        for flags, note in ((["--text-tokens", 9000], "Note: --text-tokens plans 9000, but the model has 8192 positions: "
                             "the rest stays unused.\n"), (["--text-tokens", 8192], ""),
                            (["--text-tokens", 9000, "--quiet"], "")):
            with self.subTest(flags=flags):
                done = run("caption", board("113"), *flags)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (OK, GREEN_STAR + "\n", note))

    def test_a_picture_larger_than_the_plan_does_not_fit_it(self):
        shelf = tempfile.TemporaryDirectory()
        self.addCleanup(shelf.cleanup)
        for command in (["caption"], ["ask", "--prompt", "What?"], ["library", "add", shelf.name, "--owner", "ann"]):
            with self.subTest(command=command):
                self.assert_refused([*command, board("113"), "--image-pixels", "16x16"], OVER_BUDGET,
                                    "113.png: the PNG is 256 x 256 = 65536 pixels, but 256 were planned")

    def test_a_conversation_of_too_many_tiles_names_the_flag_for_fewer(self):
        """The program cannot know how many tiles the pictures have: the model finds out."""
        family = SOURCE / "tests" / "data" / "families" / "internvl3"
        with tempfile.NamedTemporaryFile(suffix=".jpg") as picture:
            picture.write(flat_jpeg(640, 480))
            picture.flush()
            done = run("ask", "--prompt", "What?", "-m", family / "model.gguf", "--mmproj", family / "mmproj.gguf",
                       *[picture.name] * 200, "--quiet")
        self.assertEqual((done.returncode, done.stdout), (OVER_BUDGET, ""), done.stderr)
        self.assertRegex(done.stderr, r"would reach position \d+, but the model has \d+: .*, or plan fewer tiles per picture "
                         r"\(--image-tiles\)\.\n\Z")


class Usage(ProgramTest):
    def test_sentences_that_quote_something_very_long_are_cut_and_keep_their_ends(self):
        much = "x" * 100_000
        for arguments, end in [([much], "'ocellus --help'."), (["caption", board("113"), "--" + much], "--help'."),
                               (["caption", board("113"), "--temp", much], "."), (["caption", board("113"), "--schema", "{" + much], "."),
                               (["watch", "synthetic", "--json-answer", "--on", much], "or alarm."), (["caption", much], ".")]:
            done = run(*arguments)
            self.assertIn(done.returncode, (USAGE, BAD_INPUT))
            self.assertLess(len(done.stderr), 2500)
            self.assertTrue(done.stderr.endswith(end + "\n"), done.stderr[-200:])

    def test_bad_usage_is_refused_in_one_sentence(self):
        picture = board("113")
        for arguments, sentence in [
                ([], "no command"), (["frobnicate"], "unknown command frobnicate"),
                (["library", "find", "shelf", "--words", "red"], "unknown command library find; see 'ocellus library --"),
                (["ask", "--prompt", "?", "--clip", "x", "--fps", "0"], "--fps: 0 is not a number from 0.001 to 100000"),
                (["caption", picture, "--bogus"], "unknown flag --bogus"),
                (["plan", "extra"], "unexpected argument extra"),
                (["ask", picture], "--prompt is required"),
                (["ask", "--prompt", "<image> or <image>?", picture], "2 <image> marks for 1 picture"),
                (["caption", picture, "--prompt", "<image><image>"], "2 <image> marks"),
                (["caption", picture, "--temp", "nan"], "--temp"), (["caption", picture, "--temp", "-1"], "--temp"),
                (["caption", picture, "--top-p", "1.1"], "--top-p"),
                (["caption", picture, "--top-k", "2.5"], "--top-k"),
                *[(["ask", picture, "--prompt", "?", *flags], flags[0]) for flags in [
                    ("--logprobs", 21), ("--choices", "yes"), ("--choices", "a,,b"), ("--choices", "a,a"),
                    ("--choices", "a," + "b" * 4001), ("--choices", "a,b", "--json-answer"),
                    ("--choices", "a,b", "--logprobs", 1)]],
                (["caption", picture, "-n", "0"], "-n"), (["caption", picture, "-n", "many"], "-n"),
                (["caption", picture, "--threads", "257"], "257 is not a number from 0 to 256"),
                (["caption", picture, "--seed", "many"], "--seed: many is not a whole number"),
                (["caption", picture, "--seed=-1"], "--seed: -1 is not a whole number from 0 to 18446744073709551615"),
                (["caption", picture, "--seed", 1 << 64], "--seed: 18446744073709551616 is not a whole number from 0"),
                (["ask", picture, "--prompt"], "--prompt needs a value"),
                (["caption", picture, "-n", "2", "-n", "3"], "-n is given twice"),
                (["caption", picture, "--device", "tpu"], "auto, cpu, cuda and cuda:N"),
                (["caption", picture, "--gpu-memory", "far"], "auto, device, shared or mapped"),
                (["caption", picture, "--cpu-math", "f8"], "--cpu-math f8: it is f16 or bf16"),
                (["caption", picture, "--image-tiles", "0"], "--image-tiles"),
                (["caption", picture, "--image-pixels", "0x5"], "--image-pixels"),
                (["caption", picture, "--mmproj", MMPROJ], "--model"),
                (["plan", "--solve", "images"], "--budget"), (["plan", "--images", "-1"], "--images"),
                (["bench", "-r", "0"], "-r"), (["eval"], "QUESTIONS is required"),
                (["eval", "x.jsonl", "--limit", "0"], "--limit")]:
            with self.subTest(arguments=arguments):
                self.assert_refused(arguments, USAGE, sentence)

    def test_an_empty_value_is_not_taken_for_none(self):
        """So that --token "$TOKEN" without a token does not leave a server open."""
        picture = board("113")
        for arguments, name in [
                (["caption", ""], "IMAGE"), (["caption", picture, ""], "IMAGE"), (["watch", ""], "SOURCE"),
                (["caption", picture, "-m", ""], "--model"), (["ask", "--prompt", "a", "--library", ""], "--library"),
                (["plan", "--owner", ""], "--owner"), (["serve", "--token", ""], "--token"),
                (["serve", "--token-file", ""], "--token-file"), (["watch", "synthetic", "--http", ""], "--http"),
                (["watch", "synthetic", "--history", ""], "--history"),
                (["library", "list", "", "--owner", "a"], "DIR")]:
            with self.subTest(arguments=arguments):
                self.assert_refused(arguments, USAGE, f"{name} is empty: give it a value, or leave it out; see 'ocellus ")
        self.answer("caption", picture, "--prompt", "")

    def test_no_unknown_flag_is_taken_for_help(self):
        for flag in ["-hx", "-hh", "-h=1", "-help", "--helpx", "-xh", "--version-x"]:
            for command in [[], ["caption"], ["watch"], ["library", "add"]]:
                with self.subTest(flag=flag, command=command):
                    self.assert_refused([*command, flag], USAGE, f"unknown flag {flag}; .*[sS]ee 'ocellus .*--help'")
        self.assert_refused(["caption", "-nh", "2"], USAGE, "-n: h is not")
        self.assertRegex(self.answer("caption", "--help", "-hx"), "IMAGE")
        self.answer("ask", "--prompt", "-hello", "-n", 2)

    def test_commands_that_are_nearly_right_are_guessed(self):
        self.assertEqual(self.answer("help", "caption"), self.answer("caption", "--help"))
        self.assertEqual(self.answer("help"), self.answer("--help"))
        self.assert_refused(["captions", board("113")], USAGE, r"unknown command captions; is caption meant\?")
        self.assert_refused(["perp"], USAGE, r"is perplexity meant\?")
        self.assert_refused(["library"], USAGE, "library needs one of add, list, show, search.* gc; see 'ocellus library")

    def test_names_that_are_nearly_right_are_named(self):
        for given, meant in [("captoin", "caption"), ("serv", "serve"), ("libary", "library")]:
            self.assert_refused([given], USAGE, rf"unknown command {given}; is {meant} meant\? See 'ocellus --help'")
        for given, meant in [("--promt", "--prompt"), ("--thread=2", "--threads"), ("--kv-bit", "--kv-bits")]:
            self.assert_refused(["caption", board("113"), given, "1"], USAGE, rf"unknown flag {given}; is {meant} meant\? See 'ocellus caption --help'\.\n\Z")
        for nothing in ["--zzzzzzz", "-x"]:
            self.assert_refused(["caption", board("113"), nothing], USAGE, f"unknown flag {nothing}; see 'ocellus caption --help'")

    def test_a_picture_alone_is_captioned(self):
        self.assertEqual(self.answer(board("113")), GREEN_STAR + "\n")
        self.assertEqual(len(self.answer(board("113"), board("115"), "-n", 2).splitlines()), 2)
        self.assert_refused(["nowhere.jpg"], USAGE, "nowhere.jpg: there is neither such a file nor such a command")

    def test_flags_of_llama_cpp_are_taken_where_they_mean_the_same(self):
        answer = self.answer("ask", "--prompt", "Describe this image.", board("113"), "--threads", 1, "-n", 5)
        for flags in [["-p", "Describe this image.", "--image", board("113"), "-t", 1, "--n-predict", 5],
                      ["-p", "Describe this image.", f"--image={board('113')}", "-s", 7, "--predict=5", "--temperature", 0]]:
            self.assertEqual(self.answer("ask", *flags), answer)
        self.assertIn("-fa", self.objects("ask", "-p", "-fa", "--json", "-n", 1)[0]["prompt"])
        for flags, instead in [(["-c", "4096"], "--text-tokens N"), (["--ctx-size=1"], "--images N"), (["-ngl", "99"], "--device cuda"),
                               (["-fa", "on"], "leave it out"), (["--jinja"], "chat template"), (["-ctk", "q8_0"], "--kv-bits 8"),
                               (["--json-schema", "{}"], "--schema FILE")]:
            self.assert_refused(["ask", "-p", "x", board("113"), *flags], USAGE, rf"{flags[0].split('=')[0]}: .*{instead}")
        self.assert_refused(["serve", "--host", "localhost", "--port", "99999"], USAGE, "--http 127.0.0.1:99999: write ADDRESS:PORT")
        self.assert_refused(["serve", "--port"], USAGE, "--port needs a value")
        self.assert_refused(["bench", "-p"], USAGE, "-p needs a value")  # a flag of its own

    def test_flags_that_name_downloads_elsewhere_are_explained(self):
        for flags, sentence in [(["--hf-file", "a.gguf"], "--hf-file: name the repository with -hf OWNER/NAME:QUANT"),
                                (["--model-url=http://x"], "--model-url: name the repository"), (["--hf-token", "x"], "variable HF_TOKEN"),
                                (["-hf"], "--hf-repo needs a value|-hf needs a value"), (["-hf", "'; echo /"], "write OWNER/NAME or"),
                                (["-hf", "../.."], "write OWNER/NAME or"), (["-hf", "SmolVLM-256"], r"is SmolVLM-256M meant\?")]:
            with self.subTest(flags=flags):
                self.assert_refused(["caption", board("113"), *flags], USAGE, sentence)
        for arguments in [["-hf", "owner/name"], ["methods", "--hf-repo=owner/name"]]:
            self.assert_refused(arguments, USAGE, "belongs to commands that take a model, as in `ocellus caption -hf ")

    def test_values_that_change_nothing_are_accepted(self):
        text = self.answer("caption", board("113"), "--kv-bits", 16, "--calib", "none", "--evict", "none", "--keep",
                           1.0, "--reuse", "none", "--device", "auto")
        self.assertEqual(text, GREEN_STAR + "\n")

    def test_help_and_version_are_answers(self):
        self.assertRegex(self.answer("--version"), r"\Aocellus \d[.\d]+\nwith: .*image library.*\nwithout: .*CUDA|"
                                                   r"\Aocellus \d[.\d]+\nwith: .*CUDA \d")
        self.assertRegex(self.answer("--help"), "caption")
        for command in ["caption", "ask", "chat", "plan", "eval", "perplexity", "calibrate", "bench"]:
            self.assertRegex(self.answer(command, "--help", "memory"), "--budget SIZE")


class Boxes(FolderTest):
    """No bundled model answers with coordinates: places_test and picture_places_test have the rest."""

    def ask(self, *arguments):
        return ["ask", "--prompt", "Locate the star.", "--boxes", *arguments]

    def test_a_model_without_places_is_refused(self):
        drawing = self.folder / "new.png"
        self.assert_refused(self.ask(board("113"), "--draw", drawing), USAGE,
                            "--boxes needs a model whose answers hold boxes or points: ")
        self.assertFalse(drawing.exists())

    def test_boxes_are_about_one_picture(self):
        for pictures in ([], [board("113"), board("115")], [board("113"), "--clip", BOARDS / "images"]):
            self.assert_refused(self.ask(*pictures), USAGE, "--boxes needs exactly one picture")

    def test_a_drawing_overwrites_no_input(self):
        picture = self.folder / "board.png"
        picture.write_bytes(pathlib.Path(board("113")).read_bytes())
        link = self.folder / "link.png"
        link.symlink_to(picture)
        for path in (picture, link):
            self.assert_refused(self.ask(picture, "--draw", path), USAGE, "would overwrite an input")
        model = self.folder / "model.png"
        model.symlink_to(MODEL)
        self.assert_refused(self.ask(picture, "-m", MODEL, "--mmproj", MMPROJ, "--draw", model), USAGE, "an input")
        self.assertEqual(picture.read_bytes(), pathlib.Path(board("113")).read_bytes())

    def test_two_outputs_are_two_files(self):
        path, folder = self.folder / "new.png", self.folder / "new"
        again = f"{self.folder}/./new.png"
        self.assert_refused(self.ask(board("113"), "--draw", path, "--trace", again), USAGE, "--draw and --trace both write")
        self.assert_refused(["watch", "synthetic", "--history", folder, "--owner", "me", "--library", f"{folder}/"], USAGE,
                            "--history and --library both write|--library and --history both write")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_drawing_that_cannot_be_written_is_refused_at_once(self):
        for path, exit_code, sentence in [("new.gif", USAGE, "must end in .png, .jpg or .jpeg"),
                                          ("new", USAGE, "must end in"),
                                          ("none/new.png", RUNTIME, "No such file or directory; give another place"),
                                          (".", USAGE, "must end in")]:
            self.assert_refused(self.ask(board("113"), "--draw", self.folder / path), exit_code, sentence)
        (self.folder / "folder.jpg").mkdir()
        self.assert_refused(self.ask(board("113"), "--draw", self.folder / "folder.jpg"), RUNTIME, "Is a directory")
        self.assert_refused(["ask", "--prompt", "x", board("113"), "--draw", "a.png"], USAGE, "--draw requires --boxes")


class Refusals(ProgramTest):
    """What the machine refuses is a runtime failure and no fault of the files."""

    def run_under(self, limit, value, *arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, check=False,
                              preexec_fn=lambda: resource.setrlimit(limit, (value, value)))

    def under(self, limit, value):
        """The finished caption of a picture under a resource limit; None where not even the program's libraries load,
        which is the system's failure to tell, or to crash in."""
        if self.run_under(limit, value, "--version").returncode != OK:
            return None
        return self.run_under(limit, value, "caption", "--device", "cpu", "--threads", "2", board("113"))

    def assert_refused_or_answered(self, done):
        if done.returncode == OK:
            self.assertEqual(done.stdout, GREEN_STAR + "\n")
            return
        self.assertEqual((done.returncode, done.stdout), (RUNTIME, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Aocellus: [^\n]+\.\n\Z")
        self.assertNotIn("bad_alloc", done.stderr)

    def test_no_descriptors(self):
        refused = 0
        for count in range(3, 16):
            done = self.under(resource.RLIMIT_NOFILE, count)
            if done is None:
                continue
            self.assert_refused_or_answered(done)
            if done.returncode != OK:
                self.assertRegex(done.stderr, "Too many open files")
                refused += 1
        self.assertGreater(refused, 0)
        self.assertEqual(done.returncode, OK)

    @unittest.skipIf(os.environ.get("OCELLUS_SANITIZED") == "1", "sanitizers need all addresses there are")
    def test_no_memory(self):
        """From what the program's libraries take, with CUDA a hundred times as much as without, to what it needs."""
        least = next(size for size in range(16, 4096, 6)
                     if self.run_under(resource.RLIMIT_AS, size << 20, "--version").returncode == OK)
        refused = 0
        for megabytes in range(least, least + 1200, 6):
            done = self.under(resource.RLIMIT_AS, megabytes << 20)
            if done is None:
                continue
            with self.subTest(megabytes=megabytes):
                self.assert_refused_or_answered(done)
            if done.returncode == OK:
                break
            refused += 1
        self.assertGreater(refused, 5)
        self.assertEqual(done.returncode, OK)


class Streams(ProgramTest):
    def test_a_closed_pipe_is_quiet(self):
        program = subprocess.Popen([PROGRAM, "plan"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        program.stdout.close()
        self.assertEqual(program.stderr.read(), b"")
        program.stderr.close()
        self.assertIn(program.wait(timeout=60), [OK, -signal.SIGPIPE])

    def test_standard_streams_that_are_closed_become_no_file(self):
        """The first file a program opens takes the lowest free number; a model must not be read as what is typed."""
        def without(descriptor, *arguments):
            return subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                                  preexec_fn=lambda: os.close(descriptor), check=False)
        done = without(0, "chat")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (OK, b"", b""))
        done = without(1, "caption", board("113"))
        self.assertEqual(done.returncode, RUNTIME)
        self.assertRegex(done.stderr, b"the output cannot be written")
        self.assertEqual(without(2, "caption", "none.png").returncode, BAD_INPUT)

    def test_a_full_disk_is_an_error(self):
        for arguments in [["plan"], ["--help"], ["--version"], ["library", "add", "-h"]]:
            with self.subTest(arguments=arguments), open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                                      check=False)
                self.assertEqual(done.returncode, RUNTIME)
                self.assertRegex(done.stderr, "No space left")

    def test_an_interrupt_ends_a_long_answer(self):
        program = subprocess.Popen([PROGRAM, "ask", "--prompt", "Describe this image.", board("113"), "--temp", "20",
                                    "-n", "8000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with program:
            first = program.stdout.read(1)  # the answer has begun
            time.sleep(0.05)
            program.send_signal(signal.SIGINT)
            rest, errors = program.communicate(timeout=60)
        if program.returncode == OK:
            self.skipTest("the answer was complete before the interrupt")
        self.assertEqual((program.returncode, errors), (130, b""))
        self.assertTrue((first + rest).endswith(b"\n"))


if __name__ == "__main__":
    unittest.main()
