"""The methods of the matrix and the cells that they make."""
import dataclasses
import shlex


@dataclasses.dataclass(frozen=True)
class Method:
    """Flags of ocellus eval. `keep`: is run at every fraction of --keep; `bits`: "all" of --bits, "packed" ones (below
    16), "kivi": packed ones, also of text, "f16" only, or "own": the flags say them, and the method is shown among those
    of OWN_BITS."""
    flags: str
    keep: bool
    bits: str = "all"
    own: bool = False  # ours; the others are published


# Of the bundled model; its average is 1.625, and 1.83 with small scales.
LAYER_BITS = "--kv-layer-bits 2,1,1,1,1,1,2,4"
TEXT_AND_SMALL_SCALES = "--kv-scheme per-image:scales=6,text=packed"

METHODS = {
    "full": Method("", keep=False),
    "minmax": Method("--calib none", keep=False, bits="packed"),
    "calibquant": Method("--kv-scheme calibquant", keep=False, bits="packed"),
    "kivi": Method("--kv-scheme kivi --calib none", keep=False, bits="kivi"),
    "kivi-32": Method("--kv-scheme kivi:residual=32 --calib none", keep=False, bits="kivi"),
    "blocks-16": Method("--kv-scheme per-image:block=16", keep=False, bits="packed", own=True),
    "snapkv": Method("--evict snapkv", keep=True),
    "snapkv-kivi-32": Method("--evict snapkv --kv-scheme kivi:residual=32 --calib none", keep=True, bits="kivi"),
    "david": Method("--evict david", keep=True),
    "random": Method("--evict random", keep=True),
    "h2o-prefill": Method("--evict h2o-prefill", keep=True),
    "h2o-prefill-16": Method("--evict h2o-prefill:window=16", keep=True, bits="f16"),
    "david-h2o": Method("--evict david-h2o", keep=True, bits="f16"),
    "h2o": Method("--evict h2o", keep=True),
    "streaming-llm": Method("--evict streaming-llm", keep=True),
    "sink-recent": Method("--evict sink-recent", keep=True),
    "elastic": Method("--evict elastic", keep=True, bits="f16"),
    "elastic-16": Method("--evict elastic:window=16", keep=True),
    "elastic-prompt-end": Method("--evict elastic --compress-at prompt-end", keep=True, bits="f16"),
    "elastic-prompt-end-16": Method("--evict elastic:window=16 --compress-at prompt-end", keep=True, bits="f16"),
    "elastic-no-merge": Method("--evict elastic:merge=none", keep=True, bits="f16"),
    "elastic-no-merge-16": Method("--evict elastic:window=16,merge=none", keep=True, bits="f16"),
    "elastic-prefill": Method("--evict elastic-prefill", keep=True, bits="f16"),
    "elastic-prefill-16": Method("--evict elastic-prefill:window=16", keep=True, bits="f16"),
    "elastic-repo": Method("--evict elastic-repo", keep=True, bits="f16"),
    "elastic-derope-prefill": Method("--evict elastic-derope-prefill", keep=True, bits="f16", own=True),
    "elastic-derope-prefill-16": Method("--evict elastic-derope-prefill:window=16", keep=True, bits="f16", own=True),
    "look-m": Method("--evict look-m", keep=True),
    "look-m-all-text": Method("--evict look-m-all-text", keep=True, bits="f16"),
    "csp": Method("--evict csp", keep=True),
    "keydiff-prefill": Method("--evict keydiff-prefill", keep=True),
    "vl-cache": Method("--evict vl-cache", keep=True),
    "meda": Method("--evict meda", keep=True),
    "value-window": Method("--evict value-window", keep=True, own=True),
    "value-window-text": Method("--evict value-window --kv-scheme per-image:text=packed", keep=True, bits="packed", own=True),
    "small-scales": Method("--kv-scheme per-image:scales=6", keep=False, bits="packed", own=True),
    "small-scales-32": Method("--kv-scheme per-image:scales=6,block=32", keep=False, bits="packed", own=True),
    "by-layer": Method(LAYER_BITS + " --kv-scheme per-image:scales=6", keep=False, bits="own", own=True),
    "by-layer-32": Method(LAYER_BITS + " --kv-scheme per-image:scales=6,block=32", keep=False, bits="own", own=True),
    "value-window-by-layer": Method(f"--evict value-window {TEXT_AND_SMALL_SCALES} {LAYER_BITS}", keep=True, bits="own",
                                    own=True),
}

F16 = 16
OWN_BITS = 2
QUESTIONS, CAPTIONS, TEXT = "questions", "captions", "text"
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
        if METHODS[self.method].bits != "own" and self.bits < F16:
            flags += ["--kv-bits", str(self.bits)]
            flags += ["--calib", calibration] if "--calib" not in flags else []
        return flags + (["--keep", f"{self.keep:g}"] if self.keep < 1 else [])


def count_pictures(count):
    return f"{count} picture" + ("s" if count != 1 else "")


def place_name(task, pictures):
    return {CAPTIONS: "captions", TEXT: "text"}.get(task) or count_pictures(pictures)


def bits_name(bits):
    return "f16" if bits == F16 else f"{bits} bit" + ("s" if bits > 1 else "")


def setting_name(method, keep, bits):
    """'david 20 %, 2 bits'"""
    return method + (f" {100 * keep:g} %" if keep < 1 else "") + f", {bits_name(bits)}"


def settings_of(methods, keeps, bits_list):
    """(method, keep, bits) of every setting; what is cheapest to lose comes last."""
    for name in methods:
        method = METHODS[name]
        packed = [bits for bits in bits_list if bits < F16]
        wanted = {"all": bits_list, "packed": packed, "kivi": packed, "f16": [F16],
                  "own": [OWN_BITS]}[method.bits]
        for bits in wanted:
            for keep in keeps if method.keep else [1.0]:
                yield name, keep, bits


def cells_of(settings, question_counts, caption_count, has_text):
    """The cells of all settings, picture count by picture count. An answer's work grows with the pictures read before
    it; a caption is a long answer over one picture. Of text nothing is packed, but by KIVI."""
    cells = []
    for pictures, count in question_counts.items():
        cells += [Cell(QUESTIONS, pictures, *setting, weight=count * (pictures + 1)) for setting in settings]
    if caption_count:
        cells += [Cell(CAPTIONS, 1, *setting, weight=caption_count * 4) for setting in settings]
    if has_text:
        cells += [Cell(TEXT, 0, *setting, weight=4000) for setting in settings
                  if setting[-1] == F16 or METHODS[setting[0]].bits == "kivi"]
    return cells
