"""--schema, --grammar, --regex and --json-answer."""

import json
import re
import unittest

from program import BAD_INPUT, SOURCE, USAGE, FolderTest, run

SAMPLES = SOURCE / "apps" / "samples"

ASK = ["ask", "--prompt", "Say something.", "--temp", 1.5]
SCHEMA = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 0, "maximum": 20},
                                           "kind": {"enum": ["star", "circle"]}},
          "required": ["count", "kind"], "additionalProperties": False}


class ConstraintTest(FolderTest):
    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


class Constrained(ConstraintTest):
    def test_answers_satisfy_a_schema(self):
        schema = self.file("schema.json", json.dumps(SCHEMA))
        for seed in range(3):
            answer = json.loads(self.answer(*ASK, "--schema", schema, "--seed", seed))
            self.assertEqual(list(answer), ["count", "kind"])
            self.assertIn(answer["count"], range(21))
            self.assertIn(answer["kind"], ["star", "circle"])

    def test_a_schema_may_be_given_as_it_is(self):
        self.assertEqual(json.loads(self.answer(*ASK, "--schema", json.dumps(SCHEMA))),
                         json.loads(self.answer(*ASK, "--schema", self.file("schema.json", json.dumps(SCHEMA)))))
        self.assert_refused([*ASK, "--schema", '{"items": {"not": {"type": "string"}}}'], USAGE, "--schema: .*#/items/not: ")

    def test_a_space_with_which_the_model_begins_is_not_in_the_way_of_a_form(self):
        question = ["ask", "--prompt", "How many of these images show a ring?", *(SAMPLES / f"board_0{i}.png" for i in range(1, 5))]
        self.assertEqual(self.answer(*question, "--regex", r"(Zero|One|Two|Three|Four)\."), self.answer(*question))
        self.assertEqual(self.answer(*question, "--regex", r" (Zero|One|Two|Three|Four)\."), " " + self.answer(*question))

    def test_what_openai_puts_around_a_schema_is_taken_off_with_a_word(self):
        wrapped = {"name": "answer", "strict": True, "schema": SCHEMA}
        for text in ({"type": "json_schema", "json_schema": wrapped}, wrapped, {"type": "json_schema", **wrapped}):
            with self.subTest(text=list(text)):
                done = run(*ASK, "--schema", self.file("wrapped.json", json.dumps(text)))
                self.assertEqual(list(json.loads(done.stdout)), ["count", "kind"])
                self.assertIn("wrapped.json: read the schema inside it", done.stderr)
        done = run(*ASK, "--schema", self.file("schema.json", json.dumps(SCHEMA)))
        self.assertNotIn("inside it", done.stderr)
        properties = {"properties": {"schema": {"const": 1}, "name": {"const": 2}}, "required": ["schema", "name"]}
        self.assertEqual(json.loads(self.answer(*ASK, "--schema", self.file("schema.json", json.dumps(properties)))),
                         {"schema": 1, "name": 2})

    def test_answers_follow_a_grammar_and_match_a_regular_expression(self):
        grammar = self.file("list.gbnf", 'root ::= word ("," word){0,5}\nword ::= "red" | "blue"\n')
        pattern = "(red|blue)(,(red|blue)){0,5}"
        for flags in (["--grammar", grammar], ["--regex", pattern]):
            self.assertRegex(self.answer(*ASK, *flags).strip(), rf"\A{pattern}\Z")
        (answer,) = self.objects(*ASK, "--regex", " [ab]\n\n")
        self.assertRegex(answer["answer"], r"\A [ab]\n\n\Z")  # white space at its ends is its own

    def test_a_json_answer_is_an_object(self):
        (answer,) = self.objects(*ASK, "--json-answer")
        self.assertTrue(answer["answer"].startswith("{"))
        if answer["stop"] == "end":
            self.assertIsInstance(json.loads(answer["answer"]), dict)


class Refused(ConstraintTest):
    def test_an_answer_has_one_constraint(self):
        schema = self.file("schema.json", "{}")
        for flags in (["--json-answer", "--regex", "a"], ["--schema", schema, "--json-answer"]):
            self.assert_refused([*ASK, *flags], USAGE, "an answer has one constraint")

    def test_a_name_that_is_no_ready_schema_is_told_with_those_that_are(self):
        self.assert_refused([*ASK, "--schema", "nope"], BAD_INPUT, r"nope \(ready schemas: count, objects, yes_no\): cannot be opened")

    def test_files_that_cannot_be_read_are_named(self):
        empty = self.file("empty", "")
        for flag in ("--schema", "--grammar"):
            self.assert_refused([*ASK, flag, self.folder], BAD_INPUT, f"{self.folder} is a folder, not a file")
            self.assert_refused([*ASK, flag, self.folder / "none"], BAD_INPUT, "none: cannot be opened: No such file")
            self.assert_refused([*ASK, flag, empty], BAD_INPUT, "empty: there is nothing to read")
            self.assert_refused([*ASK, flag, "/dev/zero"], BAD_INPUT, "/dev/zero: .* 1048577 bytes")
            self.assert_refused([*ASK, flag, self.file("data", bytes(range(256)))], BAD_INPUT, "data: .*line 1")

    def test_what_cannot_be_held_is_refused_with_its_place(self):
        for flag, text, sentence in [
                ("--schema", '{"type": "object", "properties": {"a', "line 1, column 37: a string without an end"),
                ("--schema", '{"type": "integer", "minimum": 5, "maximum": 3}', "no value satisfies #/maximum"),
                ("--schema", '{"items": {"not": {"type": "string"}}}', "#/items/not: "),
                ("--schema", json.dumps({"enum": [f"value {i}" for i in range(20000)]}), "too large"),
                ("--grammar", 'root ::= root "a" | "b"', "the grammar is left-recursive"),
                ("--grammar", 'root ::= "a" root', "never ends"),
                ("--grammar", 'root ::= "' + "a" * (10 << 20) + '"', "more than 1048576")]:
            with self.subTest(text=text[:40]):
                path = self.file("constraint", text)
                self.assert_refused([*ASK, flag, path], BAD_INPUT, f"{re.escape(str(path))}: .*{sentence}")
        for pattern, sentence in [("(a|b)*a(a|b){30}", "has more states"), ("a{1000}{1000}", "at byte 7"),
                                  ("a" * 70000, "70000 bytes, more than 65536"), ("[z-a]", "at byte 1")]:
            with self.subTest(pattern=pattern[:40]):
                self.assert_refused([*ASK, "--regex", pattern], USAGE, f"--regex: .*{sentence}")


if __name__ == "__main__":
    unittest.main()
