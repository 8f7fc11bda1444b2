"""Shape boards: sampling them and talking about them.

A board is a 256x256 picture split into a 3x3 grid. Each cell holds at most one item: a coloured shape, or a sign with
two to four characters. Everything said about a board is derived from its parameters, so every answer is exact.

A scene is a dict: `objs` (list of cell, shape, color, size as indices into the tables below), `sign` (cell, text) or
None, and `bg`. The order in which random numbers are drawn is part of the format: it makes seeds reproducible.
"""
import random

SHAPES = ["circle", "square", "triangle", "star", "cross", "ring", "diamond", "heart"]
COLORS = {
    "red": (214, 40, 40),
    "orange": (242, 138, 28),
    "yellow": (244, 222, 52),
    "green": (38, 160, 66),
    "blue": (42, 82, 214),
    "purple": (128, 56, 176),
    "pink": (246, 140, 190),
    "cyan": (64, 208, 218),
    "white": (246, 246, 246),
    "black": (22, 22, 22),
}
COLOR_NAMES = list(COLORS)
BACKGROUNDS = {
    "gray": (128, 128, 128),
    "cream": (228, 214, 180),
    "navy": (28, 36, 84),
    "teal": (22, 104, 104),
    "maroon": (96, 26, 40),
}
BACKGROUND_NAMES = list(BACKGROUNDS)
SIZES = ["small", "large"]
PLACES = ["at the top left", "at the top", "at the top right", "on the left", "in the center", "on the right",
          "at the bottom left", "at the bottom", "at the bottom right"]
GLYPHS = "0123456789ABCDEFGHJKLMNPRSTUVWXYZ"
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
           "thirteen", "fourteen", "fifteen", "sixteen"]
CAPTION_PROMPTS = ["Describe this image.", "What is in this picture?", "Caption this image.", "What do you see?"]
QUESTION_KINDS = ["color", "shape", "count", "sign", "where", "exist", "at", "bg"]

# The SmolVLM chat template around one image, and the mark that stands for an image before that is applied.
IMAGE_OPEN = "\n\n<fake_token_around_image><global-img>"
IMAGE_CLOSE = "<fake_token_around_image>"
IMAGE_MARK = "\0"


def sample_scene(rng: random.Random) -> dict:
    """One to four shapes and, half of the time, a sign, in different cells."""
    count = rng.choice((1, 2, 2, 3, 3, 4))
    has_sign = rng.random() < 0.5
    cells = rng.sample(range(9), count + has_sign)
    objs = []
    for cell in cells[:count]:
        objs.append(dict(cell=cell, shape=rng.randrange(len(SHAPES)), color=rng.randrange(len(COLOR_NAMES)),
                         size=rng.randrange(2)))
    sign = None
    if has_sign:
        length = rng.choice((2, 3, 3, 4))
        alphabet = "0123456789" if rng.random() < 0.5 else GLYPHS
        sign = dict(cell=cells[-1], text="".join(rng.choice(alphabet) for _ in range(length)))
    return dict(objs=objs, sign=sign, bg=rng.randrange(len(BACKGROUND_NAMES)))


def article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


def object_phrase(obj: dict, with_size: bool = True) -> str:
    """'a large red circle', or 'a red circle'."""
    words = [SIZES[obj["size"]]] if with_size else []
    phrase = " ".join(words + [COLOR_NAMES[obj["color"]], SHAPES[obj["shape"]]])
    return f"{article(phrase)} {phrase}"


def caption(scene: dict) -> str:
    """Every item in reading order, then the background."""
    items = [(o["cell"], f"{object_phrase(o)} {PLACES[o['cell']]}") for o in scene["objs"]]
    if scene["sign"]:
        sign = scene["sign"]
        items.append((sign["cell"], f"a sign reading {sign['text']} {PLACES[sign['cell']]}"))
    texts = [text for _, text in sorted(items)]
    body = texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]
    return capitalised(f"{body}, on a {BACKGROUND_NAMES[scene['bg']]} background.")


def with_unique(scene: dict, key: str) -> list:
    """The objects whose `key` no other object shares, so that a question may name them by it."""
    values = [o[key] for o in scene["objs"]]
    return [o for o in scene["objs"] if values.count(o[key]) == 1]


def ask_color(scene, rng, where):
    candidates = with_unique(scene, "shape")
    if not candidates:
        return None
    obj = rng.choice(candidates)
    return f"What color is the {SHAPES[obj['shape']]}{where}?", capitalised(COLOR_NAMES[obj["color"]]) + "."


def ask_shape(scene, rng, where):
    candidates = with_unique(scene, "color")
    if not candidates:
        return None
    obj = rng.choice(candidates)
    shape = SHAPES[obj["shape"]]
    return f"Which shape is {COLOR_NAMES[obj['color']]}{where}?", f"{capitalised(article(shape))} {shape}."


def ask_count(scene, rng, where):
    return f"How many shapes are there{where}?", capitalised(NUMBERS[len(scene["objs"])]) + "."


def ask_sign(scene, rng, where):
    """A quarter of the boards without a sign are asked about it as well."""
    if not scene["sign"] and rng.random() >= 0.25:
        return None
    return f"What does the sign{where} say?", scene["sign"]["text"] + "." if scene["sign"] else "There is no sign."


def ask_where(scene, rng, where):
    candidates = with_unique(scene, "shape")
    if not candidates:
        return None
    obj = rng.choice(candidates)
    return f"Where is the {SHAPES[obj['shape']]}{where}?", capitalised(PLACES[obj["cell"]]) + "."


def ask_exist(scene, rng, where):
    """Half of the time about an object that is there, otherwise about one with a changed colour or shape."""
    if rng.random() < 0.5:
        obj = rng.choice(scene["objs"])
        return f"Is there {object_phrase(obj, with_size=False)}{where}?", "Yes."
    obj = dict(rng.choice(scene["objs"]))
    obj[rng.choice(("color", "shape"))] = rng.randrange(8)
    there = any(o["color"] == obj["color"] and o["shape"] == obj["shape"] for o in scene["objs"])
    return f"Is there {object_phrase(obj, with_size=False)}{where}?", "Yes." if there else "No."


def ask_at(scene, rng, where):
    sign = scene["sign"]
    taken = [o["cell"] for o in scene["objs"]] + ([sign["cell"]] if sign else [])
    cell = rng.choice(taken) if rng.random() < 0.8 else rng.randrange(9)
    answer = "Nothing."
    for obj in scene["objs"]:
        if obj["cell"] == cell:
            answer = capitalised(object_phrase(obj)) + "."
    if sign and sign["cell"] == cell:
        answer = f"A sign reading {sign['text']}."
    return f"What is {PLACES[cell]}{where}?", answer


def ask_bg(scene, rng, where):
    of = where.replace(" in", " of", 1)
    return f"What color is the background{of}?", capitalised(BACKGROUND_NAMES[scene["bg"]]) + "."


ASK = dict(color=ask_color, shape=ask_shape, count=ask_count, sign=ask_sign, where=ask_where, exist=ask_exist,
           at=ask_at, bg=ask_bg)


def ask_one(scene, rng, where=""):
    """(kind, question, answer) about one board; `where` is '' or ' in image N'. Redraws kinds that do not apply."""
    while True:
        kind = rng.choice(QUESTION_KINDS)
        asked = ASK[kind](scene, rng, where)
        if asked:
            return (kind, *asked)


def image_list(indices: list) -> str:
    names = [str(i + 1) for i in indices]
    if len(names) == 1:
        return f"Image {names[0]}."
    return "Images " + ", ".join(names[:-1]) + " and " + names[-1] + "."


def ask_which(scenes, rng):
    obj = rng.choice(scenes[rng.randrange(len(scenes))]["objs"])
    hits = [i for i, scene in enumerate(scenes)
            if any(o["color"] == obj["color"] and o["shape"] == obj["shape"] for o in scene["objs"])]
    return f"Which images show {object_phrase(obj, with_size=False)}?", image_list(hits)


def ask_how_many(scenes, rng):
    shape = rng.randrange(len(SHAPES))
    count = sum(any(o["shape"] == shape for o in scene["objs"]) for scene in scenes)
    return f"How many images show {article(SHAPES[shape])} {SHAPES[shape]}?", capitalised(NUMBERS[count]) + "."


def ask_sign_which(scenes, rng, with_sign):
    text = scenes[rng.choice(with_sign)]["sign"]["text"]
    hits = [i for i in with_sign if scenes[i]["sign"]["text"] == text]
    return f"In which image does the sign say {text}?", image_list(hits)


def ask_many(scenes, rng):
    """(kind, question, answer) about several boards; kinds about one of them are prefixed with 'm_'."""
    kind = rng.choice(["which", "howmany", "one", "one", "one", "one", "signwhich", "describe"])
    if kind == "which":
        return (kind, *ask_which(scenes, rng))
    if kind == "howmany":
        return (kind, *ask_how_many(scenes, rng))
    if kind == "signwhich":
        with_sign = [i for i, scene in enumerate(scenes) if scene["sign"]]
        if with_sign:
            return (kind, *ask_sign_which(scenes, rng, with_sign))
    index = rng.randrange(len(scenes))
    if kind == "describe":
        return kind, f"Describe image {index + 1}.", caption(scenes[index])
    kind, question, answer = ask_one(scenes[index], rng, f" in image {index + 1}")
    return "m_" + kind, question, answer


def conversation(scenes: list, rng: random.Random, turns: int) -> list:
    """(text, is_answer, kind) pieces of `turns` questions with answers, in the chat template; IMAGE_MARK per image."""
    if len(scenes) == 1:
        head = f"<|im_start|>User: {IMAGE_MARK}"
        asked = []
        if rng.random() < 0.75:
            asked.append(("caption", rng.choice(CAPTION_PROMPTS), caption(scenes[0])))
        while len(asked) < turns:
            asked.append(ask_one(scenes[0], rng))
        rng.shuffle(asked)
    else:
        head = "<|im_start|>User: " + "".join(f"Image {i + 1}:{IMAGE_MARK}\n" for i in range(len(scenes)))
        asked = [ask_many(scenes, rng) for _ in range(turns)]
    pieces = []
    for turn, (kind, question, answer) in enumerate(asked):
        opening = head if turn == 0 else "\nUser: "
        pieces.append((opening + question + "<end_of_utterance>\nAssistant:", False, kind))
        pieces.append((" " + answer + "<end_of_utterance>", True, kind))
    return pieces
