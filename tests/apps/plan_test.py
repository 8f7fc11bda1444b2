"""The memory plan: its table, its JSON, budgets and what is said when they are too small."""

import json
import re
import subprocess
import sys
import unittest

from program import GREEN_STAR, OK, OVER_BUDGET, PROGRAM, SOURCE, USAGE, ProgramTest, board, run


class PlanTable(ProgramTest):
    def test_plan_lists_rows_and_totals(self):
        (plan,) = self.objects("plan", "--images", 4)
        by_lifetime = {}
        for row in plan["rows"]:
            key = (row["lifetime"], row["phase"])
            by_lifetime[key] = by_lifetime.get(key, 0) + row["bytes"]
        scratch = max(total for (lifetime, _), total in by_lifetime.items() if lifetime == "scratch")
        self.assertEqual(plan["scratch_bytes"], scratch)
        for lifetime in ["weights", "session"]:
            total = sum(bytes_ for (name, _), bytes_ in by_lifetime.items() if name == lifetime)
            self.assertEqual(plan[f"{lifetime}_bytes"], total)
        parts = ["weights_bytes", "session_bytes", "scratch_bytes", "staging_bytes"]
        self.assertEqual(plan["total_bytes"], sum(plan[part] for part in parts))
        self.assertTrue(plan["fits"])
        self.assertIsNone(plan["budget_bytes"])

    def table(self, *arguments):
        """The rows below each sum, with their bytes, and the totals at the end."""
        groups, totals, rules = {}, {}, 0
        for line in self.answer("plan", "--images", 4, *arguments).splitlines()[2:]:
            row = re.match(r"( *)(\S.*?)(?:  .*)? (\d+) +[\d.]+$", line)
            if line.startswith("---"):
                rules += 1
            elif row and rules == 2:
                totals[row[2]] = int(row[3])
            elif row and row[1]:
                groups[name][1].append((row[2], int(row[3])))
            elif row:
                name = row[2]
                groups[name] = (int(row[3]), [])
        return groups, totals

    def test_small_rows_are_folded_unless_all_are_wanted(self):
        (plan,) = self.objects("plan", "--images", 4)
        short, totals = self.table()
        full, same_totals = self.table("--all")
        self.assertEqual(totals, same_totals)
        self.assertEqual(totals["total"], plan["total_bytes"])
        self.assertEqual([(row["name"], row["bytes"]) for row in plan["rows"]],
                         [row for _, rows in full.values() for row in rows])
        self.assertEqual(list(short), list(full))
        for groups in [short, full]:
            for name, (bytes_, rows) in groups.items():
                self.assertEqual(bytes_, full[name][0])
                self.assertEqual(bytes_, sum(row_bytes for _, row_bytes in rows), name)
        large = [row for row in plan["rows"] if row["bytes"] >= 32 * 1024]
        self.assertLess(sum(len(rows) for _, rows in short.values()), len(large) + len(short) + 1)
        for row in large:
            self.assertTrue(any((row["name"], row["bytes"]) in rows for _, rows in short.values()), row)


    def test_a_run_needs_what_is_planned_for_its_pictures(self):
        (answer,) = self.objects("caption", board("113"), "--text-tokens", 200)
        plan = ["plan", "--image-pixels", "256x256", "--text-tokens", 200]
        (exact,) = self.objects(*plan, "--whole-pixels", 1)
        self.assertEqual(exact["total_bytes"], answer["arena_bytes"])
        room = "Scratch has room for any picture of that size"
        self.assertIn(room, self.answer(*plan))
        self.assertNotIn(room, self.answer(*plan, "--whole-pixels", 1))
        self.assertNotIn(room, self.answer("plan", "--images", 0))


    def test_a_table_that_grows_says_why(self):
        for when, grows in (("prompt-end", True), ("image-end", False)):
            text = self.answer("plan", "--shape", "Qwen3-VL-2B", "--table", "--compress-at", when)
            self.assertEqual("Where less is kept and more is planned" in text, grows, text)


class CpuMath(ProgramTest):
    def test_the_plan_says_the_arithmetic_and_takes_the_same_bytes(self):
        plans = [self.objects("plan", "--threads", 2, *math)[0] for math in ([], ["--cpu-math", "bf16"])]
        self.assertEqual([plan["cpu_math"] for plan in plans], ["f16", "bf16"])
        self.assertEqual(plans[0]["total_bytes"], plans[1]["total_bytes"])


class Lean(ProgramTest):
    SETTING = ["--images", 16, "--kv-bits", 2, "--text-tokens", 160, "--prompt-rows", 96, "--image-pixels", "256x256",
               "--threads", 2]

    def test_lean_fits_where_the_usual_plan_does_not(self):
        (usual,) = self.objects("plan", *self.SETTING)
        (lean,) = self.objects("plan", *self.SETTING, "--lean")
        self.assertEqual((usual["lean"], lean["lean"]), (False, True))
        self.assertLess(lean["total_bytes"], usual["total_bytes"])
        self.assertLessEqual(lean["total_bytes"], 44_000_000)
        self.assertRegex(self.answer("plan", *self.SETTING, "--lean"), "; lean\n")
        budget = ["--budget", lean["total_bytes"]]
        report = json.loads(run("plan", *self.SETTING, *budget, "--json").stdout)
        self.assertIn("less scratch (--lean)", report["advice"][0]["change"])
        self.assertEqual(run("plan", *self.SETTING, *budget, "--lean").returncode, OK)

    def test_lean_answers_the_same(self):
        usual, lean = (self.objects("caption", board("113"), "--threads", 2, *option)[0] for option in [[], ["--lean"]])
        self.assertEqual(usual["answer"], lean["answer"])
        self.assertLess(lean["arena_bytes"], usual["arena_bytes"])


class Machines(ProgramTest):
    SHAPE = ["plan", "--shape", "SmolVLM2-2.2B", "--images", 2, "--machine"]

    def test_bounds_are_bytes_and_operations_over_their_rates(self):
        for form, rate in [("F16", "f16_per_s"), ("Q4_K", "int8_per_s")]:
            (plan,) = self.objects(*self.SHAPE, "orin-nano-8gb", "--format", form, "--image-tiles", 1)
            machine = plan["machine"]
            self.assertEqual(machine["cache_bytes"], 2 * plan["kv_bytes_per_image"] + 512 * plan["kv_bytes_per_token"])
            reading = machine["step_bytes"] / machine["bytes_per_s"]
            full = reading + machine["cache_bytes"] / machine["bytes_per_s"]
            encode, prompt = (machine[f"{part}_operations"] / machine[rate] for part in ("encode", "prompt"))
            for name, value in {"decode_tok_s": 1 / reading, "decode_full_tok_s": 1 / full, "encode_ms": 1e3 * encode,
                                "first_token_ms": 1e3 * (2 * encode + max(prompt, reading))}.items():
                self.assertAlmostEqual(machine[name] / value, 1, 6, name)

    def test_what_the_machine_has_beside_its_system_is_the_budget(self):
        (plan,) = self.objects(*self.SHAPE, "orin-nano-8gb")
        self.assertEqual(plan["budget_bytes"], plan["machine"]["memory_bytes"] - plan["machine"]["system_bytes"])
        (plan,) = self.objects(*self.SHAPE, "orin-nano-8gb", "--budget", "4G", "--solve", "images")
        self.assertEqual((plan["budget_bytes"], plan["solved"]), (4 << 30, True))
        large = run(*self.SHAPE, "orin-nano-8gb", "--format", "F16", "--sessions", 64)
        self.assertEqual(large.returncode, OVER_BUDGET)
        self.assertIn("more than the budget of 6979321856 bytes", large.stderr)
        self.assert_refused([*self.SHAPE, "orin"], USAGE, "--machine: orin not in .this,orin-nano-8gb,.*h200")

    def test_a_plan_for_another_machine_is_for_its_gpu_in_every_build(self):
        for machine, shares in [("orin-nano-8gb", True), ("rtx-4090", False)]:
            (plan,) = self.objects(*self.SHAPE, machine, "--threads", 1)
            (same,) = self.objects(*self.SHAPE, machine, "--threads", 7)
            self.assertEqual((plan["device"], plan["machine"]["shares_memory"]), (machine, shares))
            self.assertEqual(plan["total_bytes"], same["total_bytes"])
            staged = {row["name"] for row in plan["rows"] if row["lifetime"] == "staging"}
            twins = staged & {row["name"] for row in plan["rows"] if row["lifetime"] != "staging"}
            self.assertGreater(plan["staging_bytes"], 0)
            self.assertEqual(not twins, shares, twins)
            self.assertNotIn("outside_bytes", plan)
            (mapped,) = self.objects(*self.SHAPE, machine, "--gpu-memory", "mapped")
            self.assertEqual(mapped["weights_bytes"], 0)
        self.assertRegex(self.answer(*self.SHAPE, "orin-nano-8gb"), r"What CUDA takes there outside the plan, [^\n]* "
                         r"`ocellus devices` can tell there alone; it is among what the system takes\.\n")
        self.assert_refused([*self.SHAPE, "thor", "--device", "cpu"], USAGE, "--machine thor plans for its GPU: leave")

    def test_the_room_of_a_machine_is_no_more_than_was_free_on_one(self):
        measured = (SOURCE / "tools" / "bench" / "results" / "cuda_h100.json").read_text()
        (gpu,) = [gpu for gpu in json.loads(measured)["devices"]["devices"] if gpu["device"] == "cuda:0"]
        (plan,) = self.objects(*self.SHAPE, "h100")
        self.assertLessEqual(plan["budget_bytes"], gpu["memory_bytes"] - gpu["outside_bytes"])

    def test_the_machine_at_hand_is_measured(self):
        (plan,) = self.objects("plan", "--machine", "this", "--threads", 1)
        self.assertGreater(plan["machine"]["bytes_per_s"], 1e8)
        self.assertRegex(self.answer("plan", "--machine", "this"), r"measured[^$]*decode with a full one +[0-9.]+ +tokens/s")

    def test_nothing_measured_is_faster_than_its_bound(self):
        tool, results = (SOURCE / "tools" / "bench" / name for name in ("check_bounds.py", "results/cuda_h100.json"))
        done = subprocess.run([sys.executable, tool, PROGRAM, results, "--machine", "h100"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Budget(ProgramTest):
    def needed(self, *arguments):
        done = run(*arguments, "--budget", 1)
        self.assertEqual((done.returncode, done.stdout), (OVER_BUDGET, ""))
        return int(re.search(r"needs (\d+) bytes", done.stderr).group(1))

    def test_one_byte_decides(self):
        arguments = ["caption", board("113")]
        needed = self.needed(*arguments)
        self.assert_refused([*arguments, "--budget", needed - 1], OVER_BUDGET,
                            f"needs {needed} bytes .*, 1 more than the budget of {needed - 1} bytes")
        self.assertEqual(self.answer(*arguments, "--budget", needed), GREEN_STAR + "\n")
        (answer,) = self.objects(*arguments, "--budget", needed)
        self.assertEqual(answer["arena_bytes"], needed)

    def test_no_bytes_are_a_budget_too(self):
        self.assert_refused(["caption", board("113"), "--budget", 0], OVER_BUDGET, "budget of 0 bytes")

    def test_plan_agrees_with_refusals(self):
        (plan,) = self.objects("plan", "--images", 4)
        needed = plan["total_bytes"]
        short = run("plan", "--images", 4, "--budget", needed - 1, "--json")
        self.assertEqual(short.returncode, OVER_BUDGET)
        self.assertRegex(short.stderr, f"needs {needed} bytes")
        report = json.loads(short.stdout)
        self.assertEqual((report["fits"], report["shortfall_bytes"]), (False, 1))
        self.assertEqual(run("plan", "--images", 4, "--budget", needed).returncode, OK)

    def test_who_gives_pictures_is_not_told_to_do_without(self):
        needed = self.needed("caption", board("113"))
        self.assert_refused(["caption", board("113"), "--budget", "38M"], OVER_BUDGET,
                            f"this would fit: --budget {needed}\\.$")

    def test_every_advice_of_the_plan_is_enough(self):
        report = json.loads(run("plan", "--images", 16, "--budget", "56M", "--json").stdout)
        self.assertFalse(report["fits"])
        self.assertGreater(len(report["advice"]), 0)
        for advice in report["advice"]:
            self.assertLessEqual(advice["total_bytes"], report["budget_bytes"])

    def test_images_in_budget_is_the_most_that_fits(self):
        arguments = ["--budget", "64M", "--image-pixels", "256x256"]
        (solved,) = self.objects("plan", *arguments, "--solve", "images")
        most = solved["images_in_budget"]
        self.assertGreater(most, 1)
        self.assertEqual((solved["images"], solved["fits"]), (most, True))
        self.assertEqual(run("plan", "--images", most, *arguments).returncode, OK)
        self.assertEqual(run("plan", "--images", most + 1, *arguments).returncode, OVER_BUDGET)

    def test_the_most_pictures_are_those_that_the_model_has_positions_for_too(self):
        (report,) = self.objects("plan", "--images", 1, "--budget", "512M", "--solve", "images")
        most = report["images_in_context"]
        self.assertLess(most, report["images_in_budget"])
        self.assertEqual((report["images"], report["most_images"], report["solved"]), (most, most, True))
        solved = run("plan", "--budget", "512M", "--solve", "images")
        self.assertEqual((solved.returncode, solved.stderr), (OK, ""))
        self.assertRegex(solved.stdout, f"Solved: --images {most} is the maximum for the model's positions; "
                                        f"the budget would hold {report['images_in_budget']}; one of")
        self.assertRegex(solved.stdout, f"this budget: {most}, limited by the model's positions; memory would hold")
        self.assertRegex(run("plan", "--images", most + 1).stderr, "Note: .* positions, but the model has 8192")
        (table,) = self.objects("plan", "--budget", "512M", "--table")
        self.assertEqual({row["most_images"] for row in table["table"]}, {most})
        # Where memory is the bound, that is what is said.
        (report,) = self.objects("plan", "--budget", "100M", "--solve", "images")
        self.assertEqual(report["images"], report["images_in_budget"])
        self.assertRegex(self.answer("plan", "--budget", "100M", "--solve", "images"), "is the maximum that fits the budget")

    def test_no_positions_for_a_picture_are_said(self):
        done = run("plan", "--budget", "512M", "--solve", "images", "--text-tokens", 8190)
        self.assertEqual(done.returncode, OVER_BUDGET)
        self.assertRegex(done.stdout, "Not solved: the model does not have enough positions for one picture and the text")
        self.assertRegex(done.stderr, "no positions left for a picture besides 8190 text tokens: plan less text")

    def test_fewer_tiles_are_advised_where_they_are_enough(self):
        arguments = ["plan", "--shape", "SmolVLM-256M", "--images", 2]
        (one,) = self.objects(*arguments, "--image-tiles", 1)
        budget = ["--budget", one["total_bytes"]]
        report = json.loads(run(*arguments, *budget, "--json").stdout)
        (advice,) = [advice for advice in report["advice"] if "--image-tiles" in advice["change"]]
        tiles = re.match(r"at most (\d+) tiles per picture instead of \d+ \(--image-tiles\)$", advice["change"])[1]
        self.assertEqual(advice["for"], "budget")
        self.assertEqual(run(*arguments, *budget, "--image-tiles", tiles).returncode, OK)
        self.assertEqual(run(*arguments, *budget, "--image-tiles", int(tiles) + 1).returncode, OVER_BUDGET)

    def test_advice_names_flags(self):
        arguments = ["plan", "--images", 16, "--sessions", 2, "--text-tokens", 2000]
        (plan,) = self.objects(*arguments)
        done = run(*arguments, "--budget", plan["total_bytes"] - 1, "--json")
        flags = {re.search(r"\((.*?)\)|$", advice["change"])[1] for advice in json.loads(done.stdout)["advice"]} - {None}
        self.assertLess({"--kv-bits", "--evict, --keep", "--images", "--sessions"}, flags)
        self.assertEqual([flag for flag in flags if not flag.startswith("--")], [])

    def test_too_few_positions_are_advised_on_like_too_little_memory(self):
        arguments = ["plan", "--shape", "LLaVA-1.6-Vicuna-7B", "--format", "Q2_K", "--images", 2]
        report = json.loads(run(*arguments, "--json", "--quiet").stdout)
        self.assertEqual((report["fits"], report["images_in_context"]), (True, 1))
        self.assertEqual({advice["for"] for advice in report["advice"]}, {"positions"})
        changes = [advice["change"] for advice in report["advice"]]
        self.assertRegex(changes[0], r"at most \d tiles? per picture instead of \d \(--image-tiles\)$")
        self.assertEqual(changes[1], "at most 1 images per session instead of 2 (--images)")
        tiles = re.search(r"\d", changes[0])[0]
        (enough,) = self.objects(*arguments, "--image-tiles", tiles)
        self.assertEqual((enough["advice"], enough["image_tiles"]), ([], int(tiles)))
        self.assertEqual(enough["total_bytes"], report["advice"][0]["total_bytes"])
        text = self.answer(*arguments)
        self.assertRegex(text, r"Positions: 2 pictures and 512 text tokens take up to \d+ positions, but the model has 4096")
        self.assertRegex(text, r"alone would be enough:\n +at most \d tiles per picture")

    FLAG = re.compile(r"(?:at most|chunks of) ([0-9]+) [^,]*?\((--[a-z-]+)\)|\((--lean)\)")

    def test_what_does_not_fit_is_told_with_the_changes_that_make_it_fit(self):
        for budget, kinds in [("54MB", ["--whole-pixels", "--prompt-rows"]), ("44MB", ["--whole-pixels", "--text-tokens"])]:
            done = run("plan", "--solve", "images", "--budget", budget)
            self.assertEqual(done.returncode, OVER_BUDGET)
            found = re.search("Not solved: not one picture fits the budget; ([0-9]+) pictures would with (.*)\\.\n", done.stdout)
            self.assertIsNotNone(found, done.stdout)
            flags = {flag or lean: value for value, flag, lean in self.FLAG.findall(found[2])}
            self.assertEqual(list(flags), kinds, found[2])
            arguments = ["plan", "--budget", budget, *filter(None, sum(map(list, flags.items()), []))]
            (solved,) = self.objects(*arguments, "--solve", "images")
            self.assertEqual((solved["images"], solved["solved"]), (int(found[1]), True))
            self.assertEqual(run(*arguments, "--images", int(found[1])).returncode, OK)
        self.assertRegex(run("plan", "--solve", "images", "--budget", "38MB").stdout, "not one picture fits the budget\\.\n")

    def test_advice_is_of_two_changes_where_no_single_one_is_enough(self):
        done = run("plan", "--images", 8, "--budget", "52MB", "--json")
        *pairs, last = json.loads(done.stdout)["advice"]
        self.assertEqual(last["change"], "no images: leave the vision part out")
        self.assertGreater(len(pairs), 1)
        for pair in pairs:
            self.assertEqual(len(re.findall(r"\(--[^)]*\)", pair["change"])), 2, pair)
            self.assertLessEqual(pair["total_bytes"], 52_000_000)
        self.assertIn("; this would fit: " + pairs[0]["change"] + ", or --budget ", done.stderr)

    def test_a_number_of_pictures_says_how_they_are_reduced(self):
        for arguments, size, seen in [
                (["--shape", "Qwen2.5-VL-3B", "--budget", "8G"], "1920 x 1080", r"about \d+ x \d+ \(\d+ of \d+ rows\)"),
                (["--shape", "SmolVLM-256M", "--image-tiles", 4, "--budget", "1G"], "1920 x 1080",
                 r"about 1191 x 670 \(320 of 832 rows\)"),
                (["--image-pixels", "640x360", "--budget", "90M"], "640 x 360", "256 x 256")]:
            reduced = f"one of {size} reduced to {seen}"
            text = self.answer("plan", *arguments, "--solve", "images")
            for number in [r"each with \d+ pictures [^;]*, ", r"this budget: \d+[^\n]*; ", r"Solved: --images \d+ [^\n]*; "]:
                self.assertRegex(text, number + reduced)
            self.assertRegex(self.answer("plan", *arguments, "--solve", "bits"), r"that fits 1 picture[^\n]*; " + reduced)
            self.assertRegex(self.answer("plan", *arguments, "--table"), "\nMost pictures: " + reduced)
            (plan,) = self.objects("plan", *arguments)
            largest = plan["largest_picture"]
            self.assertEqual(f"{largest['width']} x {largest['height']}", size)
            self.assertTrue(largest["reduced"])
            self.assertIn(f"{largest['seen_width']} x {largest['seen_height']}", text)
        whole = ["plan", "--shape", "SmolVLM-256M", "--budget", "1G"]
        self.assertNotIn("reduced", self.answer(*whole))
        self.assertFalse(self.objects(*whole)[0]["largest_picture"]["reduced"])
        self.assertIsNone(self.objects(*whole, "--images", 0)[0]["largest_picture"])
        self.assertRegex(self.answer(*whole, "--whole-pixels", "640x480"),
                         r"this budget: \d+[^\n]*; those decoded as a whole \(progressive JPEG, WebP\) of up to 307200 pixels\n")

    def test_solved_lines_say_that_positions_are_missing(self):
        arguments = ["plan", "--shape", "SmolVLM-256M", "--images", 8, "--budget", "1G"]
        (report,) = self.objects(*arguments)
        most = report["images_in_context"]
        for solve, line in [("keep", "8 pictures fit without dropping anything"),
                            ("bits", "--kv-bits 16 is the maximum that fits 8 pictures")]:
            self.assertIn(f"Solved: {line}; the model has positions for only {most}.\n",
                          self.answer(*arguments, "--solve", solve))
        self.assertRegex(self.answer(*arguments, "--solve", "bits", "--image-tiles", 1), "maximum that fits 8 pictures; one of")

    def test_the_bound_on_tiles_is_told_where_there_are_tiles(self):
        (plan,) = self.objects("plan", "--shape", "SmolVLM-256M")
        self.assertEqual(plan["image_tiles"], 16)
        text = self.answer("plan", "--shape", "SmolVLM-256M", "--image-tiles", 3)
        self.assertRegex(text, "with 1 picture of up to [0-9]+ pixels in up to 3 tiles, one of [^;]* rows\\), and 512 text tokens")
        for shape in ["LLaVA-1.5-7B", "Qwen2.5-0.5B"]:
            done = run("plan", "--shape", shape, "--image-tiles", 3)
            self.assertIn("--image-tiles has no effect: this model has no tiles.\n", done.stderr)
            self.assertNotIn("tiles", done.stdout)
        self.assert_refused(["plan", "--shape", "Qwen2.5-0.5B", "--images", 2], USAGE, "choose another --shape")

    def test_sizes_are_read_strictly(self):
        for text, size in [("512M", 512 << 20), ("2G", 2 << 30), ("2GiB", 2 << 30), ("80000k", 80000 << 10),
                           ("900MB", 900 * 10**6), ("1TB", 10**12), ("123456789", 123456789)]:
            (plan,) = self.objects("plan", "--budget", text)
            self.assertEqual(plan["budget_bytes"], size)
        for text in ["", "M", "-1", "1.5G", "512 M", "512Mx", "512Mi", "0x10", "1e9", "99999999999G"]:
            self.assert_refused(["plan", f"--budget={text}"], USAGE, "--budget")


if __name__ == "__main__":
    unittest.main()
