"""Flags of the cache, what they change, what the program says about it, and calibrations."""

import json
import re
import shutil
import unittest

from program import (BAD_INPUT, GREEN_STAR, MMPROJ, MODEL, OK, OVER_BUDGET, RUNTIME, USAGE, FolderTest, ProgramTest,
                     board, long, run)

DEFAULT_POLICY = {"kv_bits": 16, "calib": "none", "evict": "none", "keep": 1.0, "compress_at": "prompt-end",
                  "reuse": "none", "reduce": "none", "reduce_keep": 1.0}


class Flags(ProgramTest):
    def test_bad_values_are_refused_in_one_sentence(self):
        for flags, sentence in [
                (["--kv-bits", "3"], "--kv-bits: 3 is not 16, 8, 4, 2 or 1"),
                (["--kv-bits", "4/3"], "--kv-bits: 4/3 is not 16, 8, 4, 2 or 1, or keys/values as in 4/2"),
                (["--kv-bits", "4/"], "--kv-bits: 4/ is not"), (["--kv-bits", "4/2/1"], "--kv-bits: 4/2/1 is not"),
                (["--kv-bits", "8/1"], "no cache format of 8-bit keys and 1-bit values: they have the same bits, or two"),
                (["--kv-bits", "16/4"], "no cache format of 16-bit keys and 4-bit values"),
                (["--kv-layer-bits", "2,1,1,1,1/8,1,2,4"], "no cache format of 1-bit keys and 8-bit values"),
                (["--kv-layer-bits", "2,1,1,1,1/,1,2,4"], "or 4/2 for its keys and values"),
                (["--kv-bits", "two"], "--kv-bits: two is not 16, 8, 4, 2 or 1"),
                (["--kv-bits", "-1"], "--kv-bits"), (["--kv-bits", "1.5"], "--kv-bits"),
                (["--kv-bits"], "--kv-bits needs a value"),
                (["--calib", "1,2"], "--calib calibrates packed caches: add --kv-bits"),
                (["--kv-bits", "1", "--calib", "on"], "none, auto or two numbers from 0 to 100"),
                (["--kv-bits", "1", "--calib", "1"], "two numbers"), (["--kv-bits", "1", "--calib", "1,2,3"], "two num"),
                (["--kv-bits", "1", "--calib", "1,nan"], "two num"), (["--kv-bits", "1", "--calib=-1,0"], "two num"),
                (["--kv-bits", "1", "--calib", "0,101"], "two num"), (["--kv-bits", "1", "--calib", ","], "two num"),
                (["--kv-scheme", "zip"], "--kv-scheme: there is no packing scheme 'zip'; there are per-image, calibquant, kivi"),
                (["--kv-scheme", "kivi"], "packs nothing in 16 bits"),
                (["--kv-scheme", "kivi:residual=0"], "kivi: residual takes a whole number from 1 to 65536, not '0'"),
                (["--kv-scheme", "per-image:scales=8"], "--kv-scheme: per-image: scales takes 16|6, not '8'"),
                (["--kv-scheme", "calibquant:scales=6"], "--kv-scheme: calibquant has no option 'scales'; it has key-range"),
                (["--kv-bits", "8", "--kv-scheme", "calibquant", "--compress-at", "image-end"], "choose per-image, or"),
                (["--kv-scheme", "per-image:block=65537"], "block takes auto, or a whole number from 1 to 65536"),
                (["--kv-bits", "1", "--calib", "0,1", "--kv-scheme", "per-image:tau-low=1"], "tau-low is given twice"),
                (["--kv-scales", "6"], "unknown flag --kv-scales"),
                (["--kv-layer-bits", "2,1,3,1,1,1,2,4"], "write 8, 4, 2 or 1 for each"),
                (["--kv-layer-bits", "16,1,1,1,1,1,2,4"], "write 8, 4, 2 or 1"), (["--kv-layer-bits", "2,,1"], "write 8"),
                (["--kv-layer-bits", "2,1"], "the model has 8 layers, but bits are given for 2"),
                (["--kv-bits", "2", "--kv-layer-bits", "2,1,1,1,1,1,2,4"], "--kv-bits excludes --kv-layer-bits"),
                (["--evict", "lru"], "--evict: there is no eviction method 'lru'; there are none, snapkv, david, h2o"), (["--keep", "0.5"], "add --evict david or --evict snapkv"),
                (["--evict", "david", "--keep", "0"], "--keep 0 would keep nothing"),
                (["--evict", "david", "--keep", "1.5"], "1.5 is not a number from 0 to 1"),
                (["--evict", "david", "--keep", "nan"], "nan is not a number from 0 to 1"),
                (["--evict", "david", "--keep", "half"], "half is not a number from 0 to 1"),
                (["--compress-at", "never"], "--compress-at: never "),
                (["--evict", "snapkv:window=-1"], "snapkv: window takes auto, or a whole number from 1 to 65536, not"),
                (["--evict", "snapkv:pool=4"], "snapkv: pool takes an odd number from 1 to 65, not '4'"),
                (["--evict", "snapkv:rho=1"], "snapkv has no option 'rho'; it has window, pool, pool-by"),
                (["--evict", "snapkv:window=8,"], "snapkv: there is a comma without an option"),
                (["--evict", "snapkv:,window=8"], "snapkv: there is a comma without an option"),
                (["--evict", ":"], "--evict: the name of the eviction method is missing before the colon"),
                (["--evict", "snapkv:x" + "\u00e9" * 20 + "=1"], "snapkv has no option 'x\u00e9{19}'; it has"),
                (["--evict", "david:rho"], "david: rho needs a value, as in rho=2; it takes a number from 0 to 1000"),
                (["--evict", "david:rho=inf"], "david: rho takes"), (["--evict", "david:"], "missing after the colon"),
                (["--evict", "david:switch=soon"], "david: switch takes small-drop|large-drop|low, or a whole number")]:
            with self.subTest(flags=flags):
                self.assert_refused(["caption", board("113"), *flags], USAGE, sentence)

    def test_long_texts_are_quoted_in_part(self):
        for flags, sentence in [(["--kv-layer-bits", "2," * 10000], r"--kv-layer-bits (2,){32}\.\.\.(2,){15}2?,?: write 8, 4"),
                                (["--budget", "\u00e9" * 25000], r"--budget \u00e9{32}\.\.\.\u00e9+: write a whole number"),
                                (["--kv-bits", "x" * 600], r"--kv-bits: x{64}\.\.\.x+ is not 16, 8")]:
            done = run("caption", board("113"), *flags)
            self.assertEqual(done.returncode, USAGE)
            self.assertRegex(done.stderr, sentence)
            self.assertLess(len(done.stderr), 400)

    def test_options_that_pack_nothing_are_remarked_on(self):
        done = run("plan", "--kv-scheme", "per-image:scales=6")
        self.assertEqual(done.returncode, OK)
        self.assertEqual(done.stderr, "--kv-scheme per-image:scales=6 packs nothing in 16 bits; --kv-bits 2 packs "
                                      "pictures.\n")
        self.assertEqual(run("plan", "--kv-scheme", "per-image:scales=6", "--kv-bits", 2).stderr, "")

    def test_a_plan_names_the_options_of_methods(self):
        text = self.answer("plan", "--kv-bits", 2, "--kv-scheme", "per-image:scales=6,tau-low=0,tau-high=2,text=packed",
                           "--evict", "value-window:window=8", "--keep", 0.5)
        self.assertIn("cache of pictures: 2 bits calibrated by 0, 2, scales=6, text=packed, value-window:window=8 keeps 50 %\n",
                      text)

    def test_every_command_knows_them(self):
        for command in ["caption", "ask", "chat", "plan", "eval", "bench"]:
            text = self.answer(command, "--help", "cache")
            for flag in ["--kv-bits 16|8|4|2|1", "--kv-layer-bits B,B,...", "--kv-scheme per-image|calibquant|kivi[:KEY=VALUE,...]",
                         "--calib none|auto|T1,T2", "--evict none|snapkv|david|h2o|value-window", "--keep FRACTION",
                         "--compress-at prompt-end|before-suffix|image-end"]:
                self.assertIn(flag, text)

    def test_each_command_names_its_own_time_of_compression(self):
        for command, default in [("ask", "prompt-end"), ("bench", "prompt-end"), ("eval", "before-suffix"),
                                 ("calibrate", "before-suffix")]:
            text = " ".join(self.answer(command, "--help", "cache").split())
            self.assertIn(f"When pictures are compressed (default: {default}).", text)

    def test_without_them_nothing_is_compressed(self):
        (answer,) = self.objects("caption", board("113"))
        self.assertEqual((answer["answer"], answer["policy"]), (GREEN_STAR, DEFAULT_POLICY))
        self.assertEqual(answer["kv_bytes"], answer["kv_bytes_full"])
        self.assertEqual(answer["kv_scale_bytes"], 0)
        (same,) = self.objects("caption", board("113"), "--kv-bits", 16, "--evict", "none", "--keep", 1)
        for key in ["answer", "kv_bytes", "kv_waste_bytes", "arena_bytes", "policy"]:
            self.assertEqual(same[key], answer[key], key)

    def test_half_of_a_pictures_rows_take_half_of_its_slots_and_of_its_prompt(self):
        question = ["ask", "--prompt", "What is on the left?", board("115"), "-n", 6]
        (full,) = self.objects(*question)
        for method in ["cover-rows", "divprune", "visionzip:contextual=0.2", "cdpruner", "even-rows",
                       "random-rows:seed=3", "fastv:layer=7"]:
            (half,) = self.objects(*question, "--reduce", method, "--reduce-keep", 0.5)
            self.assertEqual((full["image_tokens"], half["image_tokens"]), (64, 32))
            self.assertEqual(half["kv_bytes"], full["kv_bytes"] - 32 * 8192)
            self.assertEqual((half["policy"]["reduce"], half["policy"]["reduce_keep"]), (method.split(":")[0], 0.5))
            for option in method.split(":")[1:]:
                key, value = option.split("=")
                self.assertEqual(half["policy"]["reduce_options"][key], float(value))
        self.assertEqual(self.objects(*question, "--reduce", "cover-rows", "--reduce-keep", 0.5)[0]["answer"], full["answer"])
        (planned,) = self.objects("plan", "--images", 4, "--reduce", "divprune", "--reduce-keep", 0.25)
        self.assertEqual(planned["kv_bytes_per_image"], 16 * 8192)
        for flags, sentence in [(["--reduce-keep", 0.5], r"name one \(--reduce\)"),
                                (["--reduce", "divprune", "--reduce-keep", 0], "above 0 and at most 1"),
                                (["--reduce", "best", "--reduce-keep", 0.5], "there are none, cover-rows, divprune"),
                                (["--reduce", "divprune", "--reduce-keep", 0.5, "--reuse", "mpic:8"], "plan no reuse"),
                                (["--reduce", "fastv", "--reduce-ms", 5], r"before the first layer \(--reduce\), not fastv"),
                                (["--reduce-ms", 5], r"before the first layer \(--reduce\), not none"),
                                (["--reduce", "evs", "--reduce-keep", 0.5], "compares the frames of clips")]:
            with self.subTest(flags=flags):
                self.assert_refused([*question, *flags], USAGE, sentence)

    def test_packing_shrinks_pictures_by_its_bits(self):
        (full,) = self.objects("ask", "--prompt", "What is on the left?", board("115"), "-n", 2)
        image_bytes = 64 * 8192
        for bits in [8, 4, 2, 1]:
            (packed,) = self.objects("ask", "--prompt", "What is on the left?", board("115"), "-n", 2, "--kv-bits", bits)
            self.assertEqual(packed["policy"]["kv_bits"], bits)
            self.assertEqual(packed["kv_bytes_full"], full["kv_bytes"])
            self.assertEqual(packed["kv_bytes"] - packed["kv_scale_bytes"],
                             full["kv_bytes"] - image_bytes + image_bytes * bits // 16)

    def test_layers_may_differ_in_bits_and_scales_may_be_small(self):
        question = ["ask", "--prompt", "What is on the left?", board("115"), "-n", 2]
        (full,) = self.objects(*question)
        bits = [2, 1, 1, 1, 1, 1, 2, 4]
        (packed,) = self.objects(*question, "--kv-layer-bits", ",".join(map(str, bits)), "--kv-scheme",
                                 "per-image:scales=6")
        policy = packed["policy"]
        self.assertEqual((policy["kv_layer_bits"], policy["kv_scheme_options"]["scales"]), (bits, 6))
        elements, scales = 64 * 2 * 4 * 64 * 8, (16 + 3 * 64) * 4 * 8
        self.assertEqual(packed["kv_block_elements"], elements)
        self.assertEqual(packed["kv_block_bytes"], elements * sum(bits) // 64 + scales)
        self.assertEqual(packed["kv_bytes"], full["kv_bytes"] - 2 * elements + packed["kv_block_bytes"])
        (listed,) = self.objects(*question, "--kv-layer-bits", "2,2,2,2,2,2,2,2")
        (equal,) = self.objects(*question, "--kv-bits", 2)
        for key in ["answer", "kv_bytes", "kv_waste_bytes", "logits_hash"]:
            self.assertEqual(listed.get(key), equal.get(key), key)

    def test_keys_and_values_may_differ_in_bits(self):
        question = ["ask", "--prompt", "What is on the left?", board("115"), "-n", 2]
        elements = 64 * 2 * 4 * 64 * 8
        (pair,) = self.objects(*question, "--kv-bits", "4/2")
        self.assertEqual((pair["policy"]["kv_bits"], pair["policy"]["kv_value_bits"]), (4, 2))
        self.assertEqual(pair["kv_block_bytes"] - pair["kv_scale_bytes"], elements * 3 // 8)
        (layers,) = self.objects(*question, "--kv-layer-bits", "4/2,2,2,2/1,1,1/2,2/8,4")
        self.assertEqual(layers["policy"]["kv_layer_bits"], [4, 2, 2, 2, 1, 1, 2, 4])
        self.assertEqual(layers["policy"]["kv_layer_value_bits"], [2, 2, 2, 1, 1, 2, 8, 4])
        self.assertEqual(layers["kv_block_bytes"] - layers["kv_scale_bytes"], elements * (18 + 22) // 128)
        (listed,) = self.objects(*question, "--kv-layer-bits", ",".join(["4/2"] * 8))
        (equal,) = self.objects(*question, "--kv-bits", "2/2")
        (same,) = self.objects(*question, "--kv-bits", 2)
        for one, other in [(listed, pair), (equal, same)]:
            for key in ["answer", "kv_bytes", "kv_waste_bytes", "logits_hash"]:
                self.assertEqual(one.get(key), other.get(key), key)
        self.assertRegex(self.answer("plan", "--kv-bits", "4/2"), r"keys of 4 bits, values of 2 bits\n")

    def test_kivi_packs_complete_groups_of_old_tokens(self):
        question = ["ask", "--prompt", "What is on the left?", board("115"), "-n", 2]
        (full,) = self.objects(*question)
        for bits in [8, 2, 1]:
            (packed,) = self.objects(*question, "--kv-bits", bits, "--kv-scheme", "kivi:residual=16")
            policy = packed["policy"]
            self.assertEqual((policy["kv_scheme"], policy["kv_scheme_options"]), ("kivi", {"residual": 16}))
            slots = (packed["prompt_tokens"] - 16) // 32 * 32
            self.assertGreaterEqual(slots, 64)
            self.assertEqual(packed["kv_scale_bytes"], slots * 4096 * 4 // 32)
            self.assertEqual(packed["kv_bytes"],
                             full["kv_bytes"] - slots * 8192 + slots * 4096 * bits // 8 + packed["kv_scale_bytes"])

    def test_eviction_keeps_its_share(self):
        question = ["ask", "--prompt", "What is on the left?", board("115"), "-n", 1]
        (full,) = self.objects(*question)
        for rule in ["david", "snapkv"]:
            (kept,) = self.objects(*question, "--evict", rule, "--keep", 0.25)
            self.assertEqual((kept["policy"]["evict"], kept["policy"]["keep"]), (rule, 0.25))
            self.assertAlmostEqual(kept["kv_bytes"] / full["kv_bytes"], 0.25, delta=0.02)
            (same,) = self.objects(*question, "--evict", rule + ":window=auto,pool=5", "--keep", 0.25)
            for key in ["answer", "kv_bytes", "logits_hash", "policy"]:
                self.assertEqual(same.get(key), kept.get(key), key)

    def test_a_method_is_told_more_in_its_text(self):
        question = ["ask", "--prompt", "What is on the left?", board("115"), "-n", 1, "--keep", 0.25]
        (told,) = self.objects(*question, "--evict", "david:switch=3,rho=0.5")
        self.assertEqual(told["policy"]["evict"], "david")
        self.assertEqual(told["policy"]["evict_options"],
                         {"window": "auto", "pool": 5, "pool-by": "max", "rho": 0.5, "shares": "defined", "switch": 3,
                          "threshold": 0.3})

    def test_all_methods_are_listed_with_their_options(self):
        (listed,) = self.objects("methods")
        names = [method["name"] for method in listed["evict"]]
        self.assertEqual(len(names), 20)
        text = self.answer("methods")
        few, every = self.answer("caption", "--help", "cache"), self.answer("eval", "--help", "cache")
        self.assertIn("--evictnone|" + "|".join(names), "".join(every.split()))
        self.assertNotIn("elastic", few)
        self.assertIn("'ocellus methods'", " ".join(few.split()))
        for method in listed["evict"] + listed["kv_scheme"]:
            self.assertIn(f"\n{method['name']} ({method['paper']})\n  {method['meaning']}\n", text)
            for option in method["options"]:
                self.assertRegex(text, rf"    {option['key']}={option['default']} +{re.escape(option['meaning'])}")

    def test_pairs_that_cannot_be_are_listed_with_the_words_that_refuse_them(self):
        (listed,) = self.objects("methods")
        text = self.answer("methods")
        for pair in listed["pairs"]:
            self.assertIn(f"\n{pair['one']} with {pair['other']}\n  It {pair['reason']}.\n", text)
        (reason,) = [pair["reason"] for pair in listed["pairs"] if "kivi" in pair["other"]]
        done = run("plan", "--evict", "h2o", "--keep", 0.5, "--kv-bits", 2, "--kv-scheme", "kivi")
        self.assertEqual((done.returncode, done.stdout), (USAGE, ""))
        self.assertIn(f"h2o (--evict) {reason}", done.stderr)

    def test_one_method_is_shown_by_its_name(self):
        (listed,) = self.objects("methods")
        text = self.answer("methods")
        for method in listed["evict"] + listed["kv_scheme"]:
            page = self.answer("methods", method["name"])
            self.assertTrue(page.startswith(f"{method['name']} ("))
            self.assertIn("\n" + page, text)
            self.assertNotIn("\n\n", page)
            self.assertEqual(self.objects("methods", method["name"]), [method])
        self.assert_refused(["methods", "lru"], USAGE, "there is no cache method 'lru'; there are snapkv, .*, kivi")

    def test_a_rule_without_a_share_is_remarked_on(self):
        done = run("caption", board("113"), "--evict", "david")
        self.assertEqual((done.returncode, done.stdout), (OK, GREEN_STAR + "\n"))
        self.assertRegex(done.stderr, r"\A--evict david drops nothing without --keep; [^\n]+\n\Z")
        self.assertEqual(run("caption", board("113"), "--evict", "david", "--quiet").stderr, "")

    def test_chat_reports_the_bytes_of_the_cache(self):
        flags = ["--kv-bits", 2, "--evict", "david", "--keep", 0.5, "--images", 1, "--quiet"]
        text = self.answer("chat", board("115"), *flags, stdin="What is on the left?\n/stats\n")
        self.assertRegex(text, r"cache in use +\d+ bytes")
        self.assertRegex(text, r"of it scales +\d+ bytes")
        self.assertRegex(text, r"cache of pictures +2 bits, david keeps 50 %\n")
        *_, stats = self.objects("chat", board("115"), *flags, stdin="What is on the left?\n/stats\n")
        self.assertEqual((stats["policy"]["kv_bits"], stats["policy"]["keep"]), (2, 0.5))
        self.assertLess(stats["kv_bytes"], stats["kv_bytes_full"])

    def test_bench_decodes_over_made_up_visual_tokens(self):
        arguments = ["bench", "--visual", 100, "-n", 4, "-r", 1, "--kv-bits", 2]
        (bench,) = self.objects(*arguments, "-b", 3)
        rows = {row["test"]: row["mean"] for row in bench["rows"]}
        self.assertGreater(rows["tg4 @ v100"], 0)
        self.assertGreater(rows["tg4 b3 @ v100"], 0)
        self.assertNotIn("pp512", rows)
        (bench,) = self.objects(*arguments, "--kv-budget", "2M")
        self.assertEqual(bench["sessions"], int(2 / rows["cache per session"]))
        self.assert_refused([*arguments, "--kv-budget", 1000], OVER_BUDGET, "the cache of one session takes")
        for flags, sentence in [(["-b", 2, "--kv-budget", "1M"], "excludes"), (["-p", 8], "excludes"),
                                ([board("113")], "excludes"), (["--kv-budget", "much"], "--kv-budget much")]:
            self.assert_refused([*arguments, *flags], USAGE, sentence)
        self.assert_refused(["bench", "--kv-budget", "1M"], USAGE, "--kv-budget requires --visual")
        self.assert_refused(["bench", "--visual", 100, "-n", 0], USAGE, "leave -n 0 out")


class Plan(ProgramTest):
    ROOM = ["--images", 40, "--image-pixels", "256x256"]

    def plan(self, *arguments):
        (plan,) = self.objects("plan", *self.ROOM, *arguments)
        return plan

    def total(self, *arguments):
        return self.plan(*arguments)["total_bytes"]

    def test_the_policy_is_part_of_the_plan(self):
        full, packed = self.plan(), self.plan("--kv-bits", 2)
        self.assertEqual(full["policy"], DEFAULT_POLICY)
        self.assertEqual(full["kv_bytes_per_session"], full["kv_bytes_per_session_full"])
        self.assertEqual(packed["kv_bytes_per_session_full"], full["kv_bytes_per_session"])
        self.assertEqual(full["kv_bytes_per_session"] - packed["kv_bytes_per_session"],
                         40 * (full["kv_bytes_per_image"] - packed["kv_bytes_per_image"]))
        self.assertRegex(self.answer("plan", "--kv-bits", 1), r"cache of pictures: 1 bit calibrated by 0, 2\n")
        kept = ["--evict", "snapkv", "--keep", 0.2]
        self.assertEqual(self.plan(*kept)["kv_bytes_per_image"], 0)
        text = self.answer("plan", *self.ROOM, *kept)
        self.assertRegex(text, "one picture alone has no fixed size")
        self.assertRegex(text, "as f16 with nothing dropped: ")

    def test_solving_for_bits_finds_the_gentlest(self):
        totals = {bits: self.total("--kv-bits", bits) for bits in [16, 8, 4, 2, 1]}
        for bits, gentler in [(16, None), (8, 16), (4, 8), (2, 4), (1, 2)]:
            budget = totals[bits] if gentler is None else totals[gentler] - 1
            plan = self.plan("--solve", "bits", "--budget", budget)
            self.assertEqual((plan["policy"]["kv_bits"], plan["solved"], plan["fits"]), (bits, True, True))
        short = run("plan", *self.ROOM, "--solve", "bits", "--budget", totals[1] - 1, "--json")
        self.assertEqual(short.returncode, OVER_BUDGET)
        report = json.loads(short.stdout)
        self.assertEqual((report["solved"], report["policy"]["kv_bits"]), (False, 1))

    def test_solving_for_keep_finds_the_greatest(self):
        self.assertEqual(self.plan("--solve", "keep", "--budget", self.total())["policy"]["keep"], 1)
        budget = self.total("--evict", "david", "--keep", 0.3)
        plan = self.plan("--solve", "keep", "--budget", budget)
        keep = plan["policy"]["keep"]
        self.assertEqual((plan["policy"]["evict"], plan["fits"]), ("david", True))
        self.assertGreaterEqual(keep, 0.3)
        self.assertGreater(self.total("--evict", "david", "--keep", round(keep + 0.01, 2)), budget)
        budget = self.total("--evict", "david", "--keep", 0.1)
        plan = self.plan("--solve", "keep", "--budget", budget, "--evict", "snapkv")
        self.assertEqual((plan["policy"]["evict"], plan["policy"]["kv_bits"]), ("snapkv", 16))
        self.assertLess(plan["policy"]["keep"], 0.5)
        short = run("plan", *self.ROOM, "--solve", "keep", "--budget", "48M")
        self.assertEqual(short.returncode, OVER_BUDGET)
        self.assertRegex(short.stdout, "Not solved: --evict david --keep 0.01 is not small enough for 40 pictures")

    def test_a_budget_without_room_for_a_picture_holds_none(self):
        done = run("plan", "--solve", "images", "--budget", "40M", "--image-pixels", "256x256")
        self.assertEqual(done.returncode, OVER_BUDGET)
        self.assertRegex(done.stdout, "Maximum pictures per session in this budget: 0\nNot solved: not one picture fits")

    def test_solving_needs_a_budget_and_leaves_the_choice(self):
        for what in ["images", "bits", "keep"]:
            self.assert_refused(["plan", "--solve", what], USAGE, f"plan --solve {what} needs a --budget")
        self.assert_refused(["plan", "--solve", "speed"], USAGE, "--solve")
        for flags in [["--solve", "bits", "--kv-bits", 2], ["--solve", "keep", "--keep", 0.5], ["--table", "--keep", 1]]:
            self.assert_refused(["plan", "--budget", "1G", *flags], USAGE, f"chooses {flags[-2]}: leave it out")
        self.assert_refused(["plan", "--budget", "1G", "--solve", "bits", "--table"], USAGE, "exclude each other")
        self.assert_refused(["plan", "--table", "-m", MODEL], USAGE, "no vision part")

    def test_advice_names_bits_and_share(self):
        done = run("plan", *self.ROOM, "--threads", 2, "--budget", "60M", "--json")
        self.assertEqual(done.returncode, OVER_BUDGET)
        changes = " ".join(advice["change"] for advice in json.loads(done.stdout)["advice"])
        self.assertRegex(changes, r"visual keys and values in at most \d bits instead of 16 \(--kv-bits\)")
        self.assertRegex(changes, r"\d+ % of the cache kept by david instead of 100 % \(--evict, --keep\)")

    def test_the_table_agrees_with_the_plans(self):
        (report,) = self.objects("plan", *self.ROOM, "--table", "--budget", "60M")
        rows = {(row["policy"]["kv_bits"], row["policy"]["keep"]): row for row in report["table"]}
        self.assertEqual(set(rows), {(bits, keep) for bits in [16, 8, 4, 2, 1] for keep in [1, 0.5, 0.2, 0.1, 0.05]})
        for bits, keep in [(16, 1), (4, 0.2), (1, 0.05)]:
            flags = ["--kv-bits", bits] + (["--evict", "david", "--keep", keep] if keep < 1 else [])
            done = run("plan", *self.ROOM, *flags, "--budget", "60M", "--json")
            plan, row = json.loads(done.stdout), rows[bits, keep]
            for key in ["total_bytes", "kv_bytes_per_session", "images_in_budget", "fits", "policy"]:
                self.assertEqual(row[key], plan[key], key)
        self.assertRegex(self.answer("plan", *self.ROOM, "--table"), r"\n +16  100 % +\d+ ")


class Calibrate(FolderTest):
    def setUp(self):
        super().setUp()
        self.model, self.mmproj = self.folder / "model.gguf", self.folder / "mmproj.gguf"
        self.file = self.folder / "model.calib.json"
        self.model.symlink_to(MODEL)
        self.mmproj.symlink_to(MMPROJ)
        self.pair = ["-m", self.model, "--mmproj", self.mmproj]
        self.questions = self.folder / "questions.jsonl"
        lines = [{"images": [board("115")], "prompt": "<image>What is on the left?", "answer": answer}
                 for answer in ["A large cyan star.", "Nothing."]]
        self.questions.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def calibrate(self, *arguments):
        return self.objects("calibrate", self.questions, *self.pair, *arguments)[0]

    @long
    def test_the_grid_is_searched_and_the_best_written(self):
        report = self.calibrate("--kv-bits", "2,1")
        self.assertEqual((report["questions"], report["file"]), (2, str(self.file)))
        written = json.loads(self.file.read_text())
        for result in report["results"]:
            grid = {(point["tau_1"], point["tau_2"]): point["exact"] for point in result["grid"]}
            self.assertEqual(set(grid), {(low, high) for low in range(4) for high in range(4)})
            best = min(grid, key=lambda taus: (-grid[taus], sum(taus), taus))
            self.assertEqual((result["tau_1"], result["tau_2"]), best)
            entry = written["taus"][str(result["kv_bits"])]
            self.assertEqual((entry["tau_1"], entry["tau_2"], entry["questions"]), (*best, 2))
        self.assertEqual([result["kv_bits"] for result in report["results"]], [2, 1])
        self.assertEqual(list(self.folder.glob("*.part")), [])

    @long
    def test_a_dry_run_writes_nothing(self):
        self.assertIsNone(self.calibrate("--kv-bits", 2, "--limit", 1, "--dry-run")["file"])
        self.assertFalse(self.file.exists())
        text = self.answer("calibrate", self.questions, *self.pair, "--kv-bits", 2, "--limit", 1, "--dry-run")
        self.assertRegex(text, r"2 bits, accuracy over 1 question:\n\n *tau 1 \\ tau 2 +0 +1 +2 +3\n")
        self.assertRegex(text, r"\* best: tau 1 = 0, tau 2 = 0, .* Not written\.\n")

    def write(self, **changes):
        """A calibration of the model as calibrate writes it, changed."""
        if not self.file.exists():
            self.calibrate("--kv-bits", 2, "--limit", 1)
        content = json.loads(self.file.read_text())
        content.update(changes)
        self.file.write_text(json.dumps(content))

    def caption(self, bits=2):
        return ["caption", board("113"), *self.pair, "--kv-bits", bits, "--calib", "auto"]

    @long
    def test_auto_reads_the_written_calibration(self):
        self.write(taus={"2": {"tau_1": 0.5, "tau_2": 2}})
        (answer,) = self.objects(*self.caption())
        self.assertEqual(answer["policy"]["calib"], [0.5, 2])
        done = run(*self.caption(bits=1), "--json")
        self.assertRegex(done.stderr, r"\ANo calibration for 1 bit is known for this model, so none is used; .+\n\Z")
        self.assertEqual(json.loads(done.stdout)["policy"]["calib"], "none")
        self.file.unlink()
        self.assertRegex(run(*self.caption()).stderr, "No calibration for 2 bits")
        self.assertEqual(run("plan", "--shape", "SmolVLM-256M", "--kv-bits", 2, "--calib", "auto", "--quiet").stderr, "")

    @long
    def test_bits_by_layer_are_lowered_one_by_one_until_the_average_is_reached(self):
        report = self.calibrate("--layer-bits", 3.5)
        points = report["points"]
        self.assertEqual(points[0]["layer_bits"], [4] * 8)
        for before, after in zip(points, points[1:]):
            pairs = [pair for pair in zip(before["layer_bits"], after["layer_bits"]) if pair[0] != pair[1]]
            self.assertEqual([pair[1] * 2 for pair in pairs], [pairs[0][0]])
            self.assertEqual(after["average"], sum(after["layer_bits"]) / 8)
            self.assertGreater(before["average"], 3.5)
        self.assertLessEqual(points[-1]["average"], 3.5)
        self.assertEqual(report["layer_bits"], points[-1]["layer_bits"])
        self.assertFalse(self.file.exists())
        bits = ",".join(map(str, report["layer_bits"]))
        summary = self.objects("eval", self.questions, *self.pair, "--perplexity", "--kv-layer-bits", bits)[-1]
        self.assertAlmostEqual(summary["perplexity"], points[-1]["perplexity"], places=4)

    @long
    def test_bits_of_keys_and_values_are_lowered_apart(self):
        report = self.calibrate("--layer-bits", 3.8, "--apart")
        points = [point["layer_bits"] + point["layer_value_bits"] for point in report["points"]]
        self.assertEqual(points[0], [4] * 16)
        for before, after in zip(points, points[1:]):
            changed = [pair for pair in zip(before, after) if pair[0] != pair[1]]
            self.assertEqual([pair[1] * 2 for pair in changed], [changed[0][0]])
            self.assertGreater(sum(before) / 16, 3.8)
        self.assertEqual(report["points"][-1]["average"], sum(points[-1]) / 16)
        self.assertLessEqual(report["points"][-1]["average"], 3.8)
        self.assertEqual(report["layer_bits"] + report["layer_value_bits"], points[-1])
        bits = ",".join(f"{keys}/{values}" for keys, values in zip(report["layer_bits"], report["layer_value_bits"]))
        summary = self.objects("eval", self.questions, *self.pair, "--perplexity", "--kv-layer-bits", bits)[-1]
        self.assertAlmostEqual(summary["perplexity"], report["points"][-1]["perplexity"], places=4)

    def test_a_damaged_file_is_refused(self):
        self.write()
        good = self.file.read_text()
        for content, sentence in [("", "is not a calibration, or is cut off"), (good[:len(good) // 2], "is cut off"),
                                  ("[1, 2]", "is not a calibration"), ('{"kind": 3}', "is not a calibration"),
                                  ("\x00" * 99, "is not a calibration"), ("[" * 100000, "is not a calibration"),
                                  ("x" * (1 << 21), "too large")]:
            self.file.write_text(content)
            self.assert_refused(self.caption(), BAD_INPUT, sentence)
            self.assert_refused(["calibrate", self.questions, *self.pair], BAD_INPUT, sentence)
        self.file.write_text(good)
        for taus in [{"tau_1": -1, "tau_2": 0}, {"tau_1": 0}, {"tau_1": "0", "tau_2": 0}, {"tau_1": 1e9, "tau_2": 0}, 3]:
            self.write(taus={"2": taus})
            self.assert_refused(self.caption(), BAD_INPUT, "holds a tau that is no number from 0 to 100")
        self.write(taus=[])
        self.assert_refused(self.caption(), BAD_INPUT, "holds no taus")

    @long
    def test_a_file_of_another_model_is_refused(self):
        self.write()
        changed = bytearray(MODEL.read_bytes())
        for at in range(len(changed) // 2, len(changed) // 2 + (1 << 20)):
            changed[at] ^= 1  # the same size, other weights
        self.model.unlink()
        self.model.write_bytes(changed)
        self.assert_refused(self.caption(), BAD_INPUT, "was made for another model file; run ocellus calibrate again")

    @long
    def test_an_entry_of_more_questions_and_the_bundled_pairs_are_replaced_by_name_only(self):
        self.write(taus={"2": {"tau_1": 0, "tau_2": 2, "questions": 1200}})
        known = self.file.read_text()
        self.assert_refused(["calibrate", self.questions, *self.pair, "--kv-bits", 2], USAGE,
                            r"the entry for 2 bits is founded on 1,?200 questions, these are 2; --force replaces it, --dry-run only prints")
        self.assert_refused(["calibrate", self.questions], USAGE, "the bundled pair's calibration: name the model with -m")
        self.assertEqual(self.file.read_text(), known)
        self.calibrate("--kv-bits", 2, "--limit", 1, "--force")
        self.assertEqual(json.loads(self.file.read_text())["taus"]["2"]["questions"], 1)

    def test_a_file_that_cannot_be_written_is_known_before_the_search(self):
        (self.folder / "model.calib.json.part").mkdir()  # what no permission can help against
        self.assert_refused(["calibrate", self.questions, *self.pair], RUNTIME,
                            r"model\.calib\.json cannot be written: .*--dry-run")
        self.calibrate("--kv-bits", 2, "--limit", 1, "--dry-run")

    @long
    def test_a_write_that_fails_leaves_the_old_file(self):
        self.write()
        good = self.file.read_text()
        (self.folder / "model.calib.json.part").mkdir()
        run("calibrate", self.questions, *self.pair)
        self.assertEqual(self.file.read_text(), good)

    def test_bad_usage(self):
        for flags, sentence in [(["--kv-bits", "16"], "--kv-bits: 16 "), (["--kv-bits", "2,2"], "names a number twice"),
                                (["--kv-bits", "3,2"], "--kv-bits: 3 "), (["--kv-bits", ""], "--kv-bits"),
                                (["--calib", "auto"], "unknown flag --calib")]:
            self.assert_refused(["calibrate", self.questions, *flags], USAGE, sentence)
        self.assert_refused(["calibrate"], USAGE, "QUESTIONS is required")
        self.assert_refused(["calibrate", self.folder / "none.jsonl"], BAD_INPUT, "none.jsonl")

    def test_the_bundled_calibration_is_read_from_its_installation(self):
        shutil.copy(MODEL.with_suffix("").with_suffix(".calib.json"), self.file)
        self.assertEqual(run(*self.caption(2)).stderr, "")
        self.assertEqual(run(*self.caption(1)).stderr, self.remark(self.file))

    @staticmethod
    def remark(file):
        return f"Scores of 1 bit are calibrated by tau 0 and 2 ({file}); --calib none turns this off.\n"

    def test_a_known_calibration_is_on_unless_told_otherwise(self):
        bundled = MODEL.with_suffix(".calib.json")
        for flags, taus, remark in [
                ([1], [0, 2], self.remark(bundled)), ([1, "--quiet"], [0, 2], ""), ([1, "--calib", "none"], "none", ""),
                ([1, "--calib", "1,3"], [1, 3], ""), ([1, "--kv-scheme", "per-image:tau-low=1"], [1, "off"], ""),
                ([2], "none", ""), ([8], "none", ""), ([16], "none", ""), ([4, "--kv-scheme", "kivi"], "none", "")]:
            with self.subTest(flags=flags):
                done = run("plan", "--json", "--kv-bits", *flags)
                self.assertEqual((done.returncode, done.stderr), (OK, remark))
                self.assertEqual(json.loads(done.stdout)["policy"]["calib"], taus)
        for taus in ["0,101", "-1,0", "0,nan", "2"]:
            self.assert_refused(["plan", "--kv-bits", 1, f"--calib={taus}"], USAGE, "two numbers from 0 to 100")

    def test_made_up_weights_have_the_cost_of_a_calibration_at_one_bit(self):
        for bits, taus in [(1, [0, 2]), (2, "none")]:
            done = run("plan", "--shape", "SmolVLM-256M", "--kv-bits", bits, "--json")
            self.assertEqual(json.loads(done.stdout)["policy"]["calib"], taus)
            self.assertEqual("tau 0 and 2 (made-up weights" in done.stderr, bits == 1)

    @long
    def test_every_scheme_has_a_calibration_of_its_own(self):
        self.write(taus={"2": {"tau_1": 0, "tau_2": 1}, "calibquant:2": {"tau_1": 1, "tau_2": 3}})
        for scheme, taus in [("per-image", [0, 1]), ("per-image:scales=6", [0, 1]), ("calibquant", [1, 3])]:
            (answer,) = self.objects("caption", board("113"), *self.pair, "--kv-bits", 2, "--kv-scheme", scheme)
            self.assertEqual(answer["policy"]["calib"], taus)
        self.calibrate("--kv-bits", 1, "--limit", 1, "--kv-scheme", "calibquant")
        self.assertEqual(set(json.loads(self.file.read_text())["taus"]), {"2", "calibquant:2", "calibquant:1"})


if __name__ == "__main__":
    unittest.main()
