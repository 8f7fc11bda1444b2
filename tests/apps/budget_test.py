"""Shrinks the budget from 110% of the plan to nothing: every run gives the same answer or says what it needs."""

import json
import re
import unittest

from program import board, long, run

STEPS = 200
QUESTION = ["ask", "--prompt", "What is on the left?", board("115"), "-n", "16"]


class BudgetSweep(unittest.TestCase):
    def answer(self, budget):
        """The answer, or the bytes that the refusal asks for."""
        done = run(*QUESTION, "--budget", budget, limit_s=60)
        if done.returncode == 0:
            return done.stdout, None
        self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        return None, int(re.search(r"needs (\d+) bytes", done.stderr).group(1))

    @long
    def test_every_budget_works_or_is_refused_with_the_bytes_needed(self):
        unlimited = json.loads(run(*QUESTION, "--json").stdout)
        total, expected = unlimited["arena_bytes"], unlimited["answer"] + "\n"
        budgets = [total * 11 * (STEPS - 1 - step) // (10 * (STEPS - 1)) for step in range(STEPS)]
        asked_for = set()
        for budget in [*budgets, total, total - 1]:
            with self.subTest(budget=budget):
                text, needed = self.answer(budget)
                if needed is None:
                    self.assertGreaterEqual(budget, total)
                    self.assertEqual(text, expected)
                else:
                    self.assertLess(budget, needed)
                    asked_for.add(needed)
        self.assertEqual(budgets[-1], 0)
        for needed in asked_for:
            self.assertEqual(self.answer(needed), (expected, None))
        self.assertEqual(asked_for, {total})


if __name__ == "__main__":
    unittest.main()
