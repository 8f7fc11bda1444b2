"""The budget demo: what it prints, what it writes, what it refuses."""

import json
import subprocess
import sys
import unittest

from program import BAD_INPUT, OK, PROGRAM, SOURCE, USAGE, FolderTest, long

DEMO = SOURCE / "apps" / "budget_demo.py"


class BudgetDemo(FolderTest):
    def demo(self, *arguments):
        return subprocess.run([sys.executable, "-B", DEMO, "--program", PROGRAM, "--no-png", *map(str, arguments)],
                              capture_output=True, text=True, timeout=300, cwd=self.folder, check=False)

    @long
    def test_the_best_setting_for_every_budget_is_shown(self):
        done = self.demo("--limit", 2, "--bits", "16,2", "--keep", "1,0.2", "--budgets", "1,0.4,0.01", "--calib", "none")
        self.assertEqual(done.returncode, OK, done.stderr)
        report = json.loads((self.folder / "budget_demo.json").read_text())
        names = [setting["setting"] for setting in report["settings"]]
        self.assertEqual(names, ["f16", "2 bits", "f16, david keeps 20 %", "2 bits, david keeps 20 %"])
        full, small, nothing = report["budgets"]
        by_name = {setting["setting"]: setting for setting in report["settings"]}
        for row in [full, small]:
            best = by_name[row["best"]]
            self.assertLessEqual(best["kv_bytes"], row["budget_bytes"] + 1)
            for other in report["settings"]:
                if other["kv_bytes"] <= row["budget_bytes"]:
                    self.assertLessEqual(other["exact"], best["exact"])
        self.assertIsNone(nothing["best"])
        self.assertRegex(done.stdout, r"cache budget +used +best setting +accuracy\n")
        self.assertRegex(done.stdout, "nothing fits")
        self.assertEqual(done.stdout.count("right: "), 2)

    def test_impossible_requests_are_refused_in_one_sentence(self):
        for arguments, exit_code, sentence in [
                (["--questions", "none.jsonl"], BAD_INPUT, "none.jsonl is not there"),
                (["--program", "/none"], USAGE, "/none is no program"),
                (["--bits", "3"], USAGE, "--kv-bits: 3 is not"), (["--evict", "lru"], USAGE, "no eviction method .lru."),
                (["--", "--device", "tpu"], USAGE, "--device tpu")]:
            done = self.demo("--limit", 1, "--bits", "2", "--keep", "0.5", *arguments)
            self.assertEqual((done.returncode, done.stdout), (exit_code, ""), done.stderr)
            self.assertRegex(done.stderr, rf"\Abudget_demo: .*{sentence}[^\n]*\n\Z")
        for arguments in [["--bits", "many"], ["--keep", "0"], ["--keep", "2"], ["--budgets", ""]]:
            self.assertEqual(self.demo(*arguments).returncode, USAGE)


if __name__ == "__main__":
    unittest.main()
