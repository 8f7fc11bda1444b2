"""JSON files of a Hugging Face folder. What they hold was written by others: each error is one sentence with its place."""
import json
import math

MOST_SHOWN = 60


def whole_number(value, least, most):
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def finite_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def shown(value):
    """A value in a sentence, cut."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


# What was looked at last, for faults that no check names.
_looked_at = ["config.json"]


def look_at(place):
    """Notes which key or tensor the conversion has reached."""
    _looked_at[0] = place


def last_place():
    """The key with its value, or the tensor, that was looked at last."""
    return _looked_at[0]


class Facts(dict):
    """An object of a JSON file. Its errors name the file and the object, which are `place`."""

    def __init__(self, place, facts):
        if not isinstance(facts, dict):
            raise SystemExit(f"{place} is no JSON object")
        super().__init__(facts)
        self.place = place

    def __getitem__(self, key):
        if key not in self:
            raise SystemExit(f"{self.place} has no {key}")
        value = super().__getitem__(key)
        look_at(f"{self.place}: {key}, which is {shown(value)},")
        return value

    def get(self, key, default=None):
        return self[key] if key in self else default

    def part(self, *names):
        """The first of these objects that is there."""
        name = next((name for name in names if self.get(name) is not None), names[0])
        return Facts(f"{self.place}: {name}", self[name])

    def require(self, needed):
        """Keys have these values if they are there."""
        for key, value in needed.items():
            if self.get(key, value) != value:
                raise SystemExit(f"{self.place}: {key} is {self[key]}, but must be {value}")

    def count(self, key, least, most):
        """The whole number under a key that must be there."""
        value = self[key]
        if not whole_number(value, least, most):
            raise SystemExit(f"{self.place}: {key} is {shown(value)}, but must be a whole number of {least} to {most}")
        return value

    def positive(self, key):
        """The number above 0 under a key that must be there."""
        value = self[key]
        if not finite_number(value) or value <= 0:
            raise SystemExit(f"{self.place}: {key} is {shown(value)}, but must be a number above 0")
        return float(value)

    def numbers(self, key, count, least=-math.inf):
        """The list of as many finite numbers, of at least `least`, under a key that must be there."""
        values = self[key]
        if not isinstance(values, list) or len(values) != count or not all(map(finite_number, values)) or min(
                values) < least:
            raise SystemExit(f"{self.place}: {key} is {shown(values)}, but must list {count} numbers")
        return [float(value) for value in values]


def read_json(path):
    """The facts of a file, none if there is no such file."""
    try:
        return Facts(path, json.loads(path.read_text(encoding="utf-8")) if path.exists() else {})
    except (RecursionError, ValueError) as error:
        raise SystemExit(f"{path} is no JSON: {error}") from error
