"""The methods of the matrix and the cells that they make."""
import dataclasses
import shlex


@dataclasses.dataclass(frozen=True)
class Method:
    """Flags of ocellus eval. `keep`: is run at every fraction of --keep; `bits`: "all" of --bits, "packed" ones (below
    16) or "f16" only."""
    flags: str
    keep: bool
    bits: str = "all"


METHODS = {
    "full": Method("", keep=False),
    "minmax": Method("--calib none", keep=False, bits="packed"),
    "blocks-16": Method("--kv-block 16", keep=False, bits="packed"),
    "snapkv": Method("--evict snapkv", keep=True),
    "david": Method("--evict david", keep=True),
    "h2o-prefill": Method("--evict h2o-prefill", keep=True, bits="f16"),
    "h2o-prefill-16": Method("--evict h2o-prefill --evict-window 16", keep=True, bits="f16"),
    "david-h2o": Method("--evict david-h2o", keep=True, bits="f16"),
    "sink-recent": Method("--evict sink-recent", keep=True, bits="f16"),
    "elastic-prefill": Method("--evict elastic-prefill", keep=True, bits="f16"),
    "elastic-prefill-16": Method("--evict elastic-prefill --evict-window 16", keep=True, bits="f16"),
    "elastic-repo": Method("--evict elastic-repo", keep=True, bits="f16"),
    "elastic-derope-prefill": Method("--evict elastic-derope-prefill", keep=True, bits="f16"),
    "elastic-derope-prefill-16": Method("--evict elastic-derope-prefill --evict-window 16", keep=True, bits="f16"),
    "look-m": Method("--evict look-m", keep=True, bits="f16"),
    "look-m-all-text": Method("--evict look-m-all-text", keep=True, bits="f16"),
    "csp": Method("--evict csp", keep=True, bits="f16"),
    "vl-cache": Method("--evict vl-cache", keep=True, bits="f16"),
    "meda": Method("--evict meda", keep=True, bits="f16"),
    "value-window": Method("--evict value-window", keep=True),
    "value-window-text": Method("--evict value-window --kv-pack-text", keep=True, bits="packed"),
}

F16 = 16
QUESTIONS, CAPTIONS = "questions", "captions"
KEY = ["task", "pictures", "method", "keep", "bits"]  # what tells cells apart


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of the program. `task`: which of its commands answers."""
    task: str
    pictures: int
    method: str
    keep: float
    bits: int
    weight: float = dataclasses.field(default=1, compare=False)  # expected work, in any unit

    def key(self):
        return [getattr(self, name) for name in KEY]

    def name(self):
        return setting_name(self.method, self.keep, self.bits)

    def flags(self, calibration):
        flags = shlex.split(METHODS[self.method].flags)
        if self.bits < F16:
            flags += ["--kv-bits", str(self.bits)]
            flags += ["--calib", calibration] if "--calib" not in flags else []
        return flags + (["--keep", f"{self.keep:g}"] if self.keep < 1 else [])


def count_pictures(count):
    return f"{count} picture" + ("s" if count != 1 else "")


def place_name(task, pictures):
    return "captions" if task == CAPTIONS else count_pictures(pictures)


def bits_name(bits):
    return "f16" if bits == F16 else f"{bits} bit" + ("s" if bits > 1 else "")


def setting_name(method, keep, bits):
    """'david 20 %, 2 bits'"""
    return method + (f" {100 * keep:g} %" if keep < 1 else "") + f", {bits_name(bits)}"


def settings_of(methods, keeps, bits_list):
    """(method, keep, bits) of every setting; what is cheapest to lose comes last."""
    for name in methods:
        method = METHODS[name]
        wanted = {"all": bits_list, "packed": [bits for bits in bits_list if bits < F16], "f16": [F16]}[method.bits]
        for bits in wanted:
            for keep in keeps if method.keep else [1.0]:
                yield name, keep, bits


def cells_of(settings, question_counts, caption_count):
    """The cells of all settings, picture count by picture count. An answer's work grows with the pictures read before
    it; a caption is a long answer over one picture."""
    cells = []
    for pictures, count in question_counts.items():
        cells += [Cell(QUESTIONS, pictures, *setting, weight=count * (pictures + 1)) for setting in settings]
    if caption_count:
        cells += [Cell(CAPTIONS, 1, *setting, weight=caption_count * 4) for setting in settings]
    return cells
