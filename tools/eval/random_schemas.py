#!/usr/bin/env python3
"""Prints random JSON schemas, one a line, of all the keywords that constraints read. Every one has finite values.

usage: random_schemas.py [--count N] [--seed S] [--depth D]

Answers under them are valid by the jsonschema package with Draft202012Validator.FORMAT_CHECKER: branches of a oneOf have
different types, so that reading it as anyOf is right, and definitions refer to each other only where they may be left
out.
"""
import argparse
import json
import random
import urllib.parse

WORDS = ["name", "colour", "count", "box", "x", "y", "id", "is_red", "a b", "größe", "数", "q\"uote", "back\\slash",
         "line\nend", "", "nam", "names", "n", "$ref", "type"]
PATTERNS = ["^[a-z]{1,8}$", "^\\d{3}-\\d{4}$", "b", "^(red|green|blue)( (dark|light))?$", "^[^ \"]+$", "\\.png$", "^é+$",
            "^\\\\?\"*$"]
FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "uri"]
CONSTANTS = [None, True, False, 0, -3, 2.5, "", "red", "a\"b\\c\n\u0001é😀", [], [1, "x", None], {}, {"a": {"b": [1]}}]
MOST_SCHEMAS = 60  # of one, about
NOTES = {"title": "A title", "description": "Says nothing.", "$comment": "", "default": 1, "examples": [1, "a"]}


class Generator:
    def __init__(self, seed, depth):
        self.random = random.Random(seed)
        self.depth = depth
        self.names = []  # of definitions
        self.left = MOST_SCHEMAS

    def chance(self, share):
        return self.random.random() < share

    def whole(self):
        count = self.random.choice([0, 0, 1, 2, 4])
        self.names = [self.random.choice(["node", "a/b", "t~x", "p%q", "é"]) + str(i) for i in range(count)]
        schema = self.schema(self.random.randint(0, self.depth))
        if self.names:
            schema["$defs"] = {name: self.definition() for name in self.names}
        if self.chance(0.3):
            schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
        return schema

    def definition(self):
        """Ends without any other definition."""
        names, self.names = self.names, []
        schema = self.object(1)
        self.names = names
        if self.chance(0.3):
            return self.scalar()
        name = "next"
        schema.setdefault("properties", {})[name] = self.reference()
        if "required" in schema:
            schema["required"] = [r for r in schema["required"] if r != name]
        if "maxProperties" in schema:
            del schema["maxProperties"]
        return {"anyOf": [{"type": "null"}, schema]} if self.chance(0.3) else schema

    def reference(self):
        name = self.random.choice(self.names)
        escaped = name.replace("~", "~0").replace("/", "~1")
        return self.noted({"$ref": "#/$defs/" + urllib.parse.quote(escaped)})

    def noted(self, schema):
        if self.chance(0.1):
            key = self.random.choice(sorted(NOTES))
            schema[key] = NOTES[key]
        return schema

    def schema(self, depth):
        self.left -= 1
        if depth <= 0 or self.left < 0:
            return self.noted(self.reference() if self.names and self.chance(0.2) else self.scalar())
        make = self.random.choice([self.object, self.object, self.object, self.array, self.array, self.choice, self.merged])
        return self.noted(make(depth))

    def scalar(self):
        makes = [self.string, self.string, self.integer, self.integer, self.number, self.constants,
                 lambda: {"type": "boolean"}, lambda: {"type": "null"}]
        schema = self.random.choice(makes)()
        if isinstance(schema.get("type"), str) and schema["type"] != "null" and "enum" not in schema and self.chance(0.15):
            schema["type"] = [schema["type"], "null"]
        return schema

    def string(self):
        schema = {"type": "string"}
        kind = self.random.choice(["any", "lengths", "pattern", "format"])
        if kind == "lengths":
            schema |= self.counts("minLength", "maxLength", 12)
        elif kind == "pattern":
            schema["pattern"] = self.random.choice(PATTERNS)
        elif kind == "format":
            schema["format"] = self.random.choice(FORMATS)
        return schema

    def counts(self, least_name, most_name, limit, least=0):
        low = self.random.randint(least, limit)
        counts = {}
        if self.chance(0.6):
            counts[least_name] = low
        if self.chance(0.6):
            counts[most_name] = self.random.randint(low, limit + 2)
        return counts

    def integer(self):
        schema = {"type": "integer"}
        low = self.random.choice([0, 1, -1, -1000, 17, 99, self.random.randint(-10**9, 10**9)])
        if self.chance(0.5):
            schema[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        if self.chance(0.5):
            schema[self.random.choice(["maximum", "exclusiveMaximum"])] = low + self.random.choice([2, 10, 99, 10**6])
        if self.chance(0.1):
            schema["multipleOf"] = 1
        return schema

    def number(self):
        schema = {"type": "number"}
        low = self.random.choice([0, 1, -1, 0.5, -2.25, 100, -0.001, round(self.random.uniform(-1000, 1000), 3)])
        if self.chance(0.5):
            schema[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        if self.chance(0.5):
            above = round(low + self.random.choice([0.001, 0.5, 1, 1234.5]), 4)
            schema[self.random.choice(["maximum", "exclusiveMaximum"])] = above
        return schema

    def constants(self):
        if self.chance(0.3):
            return {"const": self.random.choice(CONSTANTS)}
        values = self.random.sample(CONSTANTS, self.random.randint(1, 5))
        texts = [v for v in values if isinstance(v, str)]
        return {"type": "string", "enum": values} if texts and self.chance(0.5) else {"enum": values}

    def object(self, depth):
        names = self.random.sample(WORDS, self.random.randint(0, 5))
        schema = {"type": "object"}
        if names or self.chance(0.3):
            schema["properties"] = {name: self.schema(depth - 1) for name in names}
        required = [name for name in names if self.chance(0.5)]
        self.random.shuffle(required)
        if required:
            schema["required"] = required
        if self.chance(0.4):
            schema["additionalProperties"] = self.random.choice([True, False, False, self.schema(depth - 2)])
        if names and self.chance(0.2):
            schema |= self.counts("minProperties", "maxProperties", len(names), len(required))
        return schema

    def array(self, depth):
        schema = {"type": "array"} | self.counts("minItems", "maxItems", 4)
        if self.chance(0.8):
            schema["items"] = self.schema(depth - 1)
        if self.chance(0.3):
            schema["prefixItems"] = [self.schema(depth - 1) for _ in range(self.random.randint(1, 3))]
        return schema

    def choice(self, depth):
        if self.chance(0.3):  # beside the choice stands what holds for all branches
            names = self.random.sample(WORDS, 3)
            schema = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}}
            return schema | {"anyOf": [{"required": [name]} for name in names[:2]]}
        if self.chance(0.5):
            return {"anyOf": [self.schema(depth - 1) for _ in range(self.random.randint(1, 3))]}
        makes = [self.string, self.number, lambda: self.object(depth - 1), lambda: self.array(depth - 1),
                 lambda: {"type": "boolean"}, lambda: {"type": "null"}]
        return {"oneOf": [make() for make in self.random.sample(makes, self.random.randint(1, 4))]}

    def merged(self, depth):
        if self.chance(0.3):
            return {"allOf": [self.schema(depth - 1)]}
        names = self.random.sample(WORDS, 4)
        parts = [{"type": "object", "properties": {n: self.schema(depth - 1) for n in half},
                  "required": [n for n in half if self.chance(0.5)]} for half in (names[:2], names[2:])]
        return {"allOf": parts} if self.chance(0.5) else parts[0] | {"allOf": parts[1:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--depth", type=int, default=8)
    args = parser.parse_args()
    for number in range(args.count):
        print(json.dumps(Generator(f"{args.seed} {number}", args.depth).whole(), ensure_ascii=False))


if __name__ == "__main__":
    main()
