"""Results of several named values."""
from __future__ import annotations

from typing import Any


class Record:
    """Named values that do not change. Its classes annotate what they hold."""

    def __init__(self, **values: Any):
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} does not change")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))

    def asdict(self) -> dict[str, Any]:
        """The values by name."""
        return dict(self.__dict__)
