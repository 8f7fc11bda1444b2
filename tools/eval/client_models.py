"""Sixty models as users of instructor and of OpenAI's parse write them, and their schemas.

    client_models.py > FILE

Prints one JSON object a line: name and schema. Needs pydantic (client_schemas_requirements.txt).
"""
import datetime
import decimal
import enum
import ipaddress
import json
import pathlib
import re
import uuid
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar, Union

from pydantic import (UUID4, AnyUrl, AwareDatetime, Base64Bytes, BaseModel, ByteSize, ConfigDict, Discriminator, Field,
                      FilePath, FiniteFloat, HttpUrl, IPvAnyAddress, Json, NonNegativeFloat, NonNegativeInt, PastDate,
                      PositiveInt, RootModel, SecretStr, StringConstraints, Tag, TypeAdapter, computed_field, conint, conlist,
                      constr, create_model, field_validator)
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict


class Colour(str, enum.Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    MIDDLE = 2
    HIGH = 3


class Point(BaseModel):
    x: int
    y: int


class Box(BaseModel):
    left: float = Field(ge=0, le=1)
    top: float = Field(ge=0, le=1)
    right: float = Field(ge=0, le=1)
    bottom: float = Field(ge=0, le=1)


class Detection(BaseModel):
    """An object in a picture."""
    label: str = Field(min_length=1, max_length=40, description="What it is.")
    score: float = Field(ge=0, le=1)
    box: Box


class Detections(BaseModel):
    objects: list[Detection] = Field(max_length=20)


class Count(BaseModel):
    what: Literal["person", "car", "bicycle"]
    count: NonNegativeInt


class LineItem(BaseModel):
    description: str
    quantity: PositiveInt
    unit_price: decimal.Decimal = Field(ge=0, decimal_places=2)


class Address(BaseModel):
    street: str
    city: str
    postcode: str = Field(pattern=r"^\d{5}$")
    country: constr(pattern=r"^[A-Z]{2}$", min_length=2, max_length=2) = "DE"


class Invoice(BaseModel):
    number: str = Field(pattern=r"^INV-\d{4,8}$", max_length=12)
    issued: datetime.date
    due: Optional[datetime.date] = None
    seller: Address
    items: list[LineItem] = Field(min_length=1)
    total: decimal.Decimal
    currency: Literal["EUR", "USD", "GBP"] = "EUR"


class Receipt(BaseModel):
    shop: str
    bought: datetime.datetime
    total: float = Field(gt=0, description="Sum in euros.", json_schema_extra={"unit": "EUR"})
    paid_by: Literal["cash", "card", None] = None


class Plate(BaseModel):
    plate: Annotated[str, StringConstraints(pattern=r"^[A-Z0-9-]+$", max_length=8)]
    country: Optional[Annotated[str, Field(pattern="^[A-Z]{1,3}$")]] = None


class Move(BaseModel):
    kind: Literal["move"]
    to: Point
    speed: float = Field(default=0.5, gt=0, le=2)


class Grasp(BaseModel):
    kind: Literal["grasp"]
    target: str
    force: Annotated[float, Field(multiple_of=0.5, ge=0, le=20)] = 5


class Wait(BaseModel):
    kind: Literal["wait"]
    seconds: conint(ge=1, le=600)


class RobotCommand(BaseModel):
    model_config = ConfigDict(extra="forbid")
    command: Annotated[Union[Move, Grasp, Wait], Field(discriminator="kind")]
    why: str = Field(max_length=200)


class RobotPlan(BaseModel):
    steps: conlist(Annotated[Union[Move, Grasp, Wait], Field(discriminator="kind")], min_length=1, max_length=8)


class Tags(BaseModel):
    tags: set[Literal["indoor", "outdoor", "day", "night"]]


class Colours(BaseModel):
    seen: frozenset[Colour] = Field(min_length=1)
    main: Colour


class Ratings(BaseModel):
    stars: set[Annotated[int, Field(ge=1, le=5)]]


class FreeTags(BaseModel):
    tags: set[str]


class Neighbours(BaseModel):
    ids: frozenset[int]


class ColourCounts(BaseModel):
    counts: dict[Colour, int]


class SlotPrices(BaseModel):
    prices: dict[Literal["small", "large"], NonNegativeFloat]


class WordCounts(BaseModel):
    words: dict[Annotated[str, StringConstraints(pattern="^[a-z]+$")], PositiveInt]


class ShortNames(BaseModel):
    by_name: dict[Annotated[str, StringConstraints(min_length=1, max_length=10)], str]


class ByDay(BaseModel):
    sales: dict[datetime.date, float]


class ByKey(BaseModel):
    parts: dict[uuid.UUID, int]


class Settings(BaseModel):
    values: dict[str, Union[bool, int, float, str, None]]


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class LinkedList(BaseModel):
    value: int
    next: Optional["LinkedList"] = None


class Expression(BaseModel):
    op: Literal["add", "multiply"]
    left: Union[float, "Expression"]
    right: Union[float, "Expression"]


class Person(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    first_name: str
    last_name: str
    birth_date: Optional[PastDate] = None
    email: Optional[Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$", max_length=254)]] = None


class Contact(BaseModel):
    phone: constr(pattern=r"^\+[1-9]\d{6,14}$") | None
    website: HttpUrl | None
    feed: AnyUrl | None = None


class Event(BaseModel):
    id: UUID4
    at: AwareDatetime
    lasts: datetime.timedelta
    opens: datetime.time


class Files(BaseModel):
    path: pathlib.Path
    source: FilePath
    content: Base64Bytes
    size: ByteSize


class Login(BaseModel):
    user: constr(strip_whitespace=True, to_lower=True, min_length=3, max_length=20, pattern="^[a-z][a-z0-9_]*$")
    password: SecretStr


class Host(BaseModel):
    name: str
    v4: ipaddress.IPv4Address
    v6: ipaddress.IPv6Address
    any: IPvAnyAddress
    network: ipaddress.IPv4Network


class Rule(BaseModel):
    matches: re.Pattern
    level: Level


class Stored(BaseModel):
    payload: Json[dict[str, int]]
    raw: bytes


class Segment(BaseModel):
    ends: tuple[Point, Point]
    widths: tuple[float, ...]
    label: tuple[Literal["a", "b"], int]


class Pose(NamedTuple):
    x: float
    y: float
    heading: float


class Track(BaseModel):
    poses: list[Pose]


class Options(TypedDict, total=False):
    zoom: int
    night: bool


class Camera(BaseModel):
    name: str
    options: Options


@dataclass
class Size:
    width: PositiveInt
    height: PositiveInt


class Picture(BaseModel):
    size: Size
    depth: Literal[8, 10, 12]


class Steps(BaseModel):
    volume: conint(multiple_of=5, ge=0, le=100)
    offset: conint(multiple_of=16)


class Price(BaseModel):
    amount: Annotated[float, Field(multiple_of=0.01, ge=0)]


T = TypeVar("T")


class Answer(BaseModel, Generic[T]):
    reasoning: str
    answer: T
    confidence: FiniteFloat = Field(ge=0, le=1)


class YesNo(BaseModel):
    answer: bool


class Choice(BaseModel):
    label: Literal["A", "B", "C", "D"]


class Anything(BaseModel):
    kind: str
    data: Any
    more: object = None


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Typed(BaseModel):
    __pydantic_extra__: dict[str, int]
    model_config = ConfigDict(extra="allow")
    name: str


class Names(RootModel):
    root: list[constr(min_length=1, max_length=30)]


class Matrix(RootModel):
    root: conlist(conlist(float, min_length=3, max_length=3), min_length=3, max_length=3)


class Cat(BaseModel):
    animal: Literal["cat"]
    indoor: bool


class Dog(BaseModel):
    animal: Literal["dog"]
    breed: str


class Pet(BaseModel):
    pet: Annotated[Union[Annotated[Cat, Tag("cat")], Annotated[Dog, Tag("dog")]],
                   Discriminator(lambda value: value["animal"] if isinstance(value, dict) else value.animal)]


class Base(BaseModel):
    id: int
    created: datetime.date = Field(examples=["2026-01-31"])


class Ticket(Base):
    title: str = Field(min_length=1, max_length=80)
    level: Level = Level.LOW
    labels: list[Colour] = Field(default_factory=list, max_length=3)


class Product(BaseModel):
    sku: Annotated[str, Field(pattern=r"^[A-Z]{3}-\d{3}$", examples=["ABC-123"])]
    price: decimal.Decimal = Field(max_digits=8, decimal_places=2, gt=0)
    stock: int = Field(0, ge=0, deprecated=True)

    @computed_field
    @property
    def in_stock(self) -> bool:
        return self.stock > 0


class Weather(BaseModel):
    sky: Literal["clear", "clouds", "rain"] | None
    celsius: float | None = Field(None, ge=-90, le=60)


class TableCell(BaseModel):
    row: NonNegativeInt
    column: NonNegativeInt
    text: str


class Table(BaseModel):
    caption: str | None = None
    cells: list[TableCell]


class Citation(BaseModel):
    quote: str = Field(max_length=120)
    page: PositiveInt

    @field_validator("quote")
    @classmethod
    def has_words(cls, quote):
        return quote


class Facts(BaseModel):
    facts: list[Citation]
    missing: Optional[list[str]] = None


class Meter(BaseModel):
    kind: Literal["water", "gas", "power"]
    reading: decimal.Decimal = Field(ge=0, max_digits=9, decimal_places=3)
    serial: Annotated[str, StringConstraints(min_length=6, max_length=12, to_upper=True)]


class Chess(BaseModel):
    move: Annotated[str, Field(pattern=r"^(?:O-O(?:-O)?|[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8](?:=[QRBN])?)[+#]?$", max_length=7)]
    eval: float


class Song(BaseModel):
    key: Literal["C", "G", "D", "A"]
    tempo: Annotated[int, Field(ge=20, le=300)]
    lyrics: dict[Annotated[int, Field(ge=1)], str]


class Secret(BaseModel):
    code: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]+$", min_length=32, max_length=64)]


class Page(BaseModel):
    title: Annotated[str, Field(title="Headline", max_length=100)]
    blocks: list[Union[TableCell, Citation, Literal["rule"]]]


MODELS = {
    "detections": Detections, "count": Count, "invoice": Invoice, "receipt": Receipt, "plate": Plate, "robot_command": RobotCommand,
    "robot_plan": RobotPlan, "tags": Tags, "colours": Colours, "ratings": Ratings, "free_tags": FreeTags,
    "neighbours": Neighbours, "colour_counts": ColourCounts, "slot_prices": SlotPrices, "word_counts": WordCounts,
    "short_names": ShortNames, "by_day": ByDay, "by_key": ByKey, "settings": Settings, "tree": Tree, "linked_list": LinkedList,
    "expression": Expression, "person": Person, "contact": Contact, "event": Event, "files": Files, "login": Login,
    "host": Host, "rule": Rule, "stored": Stored, "segment": Segment, "track": Track, "camera": Camera, "picture": Picture,
    "steps": Steps, "price": Price, "answer_of_points": Answer[list[Point]], "answer_of_enum": Answer[Colour], "yes_no": YesNo,
    "choice": Choice, "anything": Anything, "extra": Extra, "typed_extra": Typed, "names": Names, "matrix": Matrix, "pet": Pet,
    "ticket": Ticket, "product": Product, "weather": Weather, "table": Table, "facts": Facts, "meter": Meter, "chess": Chess,
    "song": Song, "secret": Secret, "page": Page, "optional_point": Optional[Point], "list_of_detections": list[Detection],
    "union_of_models": Union[Cat, Dog, YesNo],
    "created": create_model("Created", name=(str, ...), when=(datetime.date, ...), marks=(list[conint(ge=1, le=6)], [])),
}


def main():
    for name, model in MODELS.items():
        print(json.dumps({"name": name, "schema": TypeAdapter(model).json_schema()}, separators=(",", ":")))


if __name__ == "__main__":
    main()
