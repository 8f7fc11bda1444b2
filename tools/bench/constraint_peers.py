"""constraint_bench's schemas and answers through XGrammar and llguidance, in turns with constraint_bench itself.

    pip install tokenizers xgrammar llguidance numpy
    constraint_peers.py BUILD/constraint_bench VOCABULARY.gguf SCHEMAS.jsonl [rounds]

Times are of the thread, of one call each from Python; `clock_us` is what an empty call and the clock take, and is
contained in each. A token's time is the median over the rounds. Prints one JSON object."""
import importlib.metadata
import json
import statistics
import struct
import subprocess
import sys
import time

import llguidance
import llguidance.numpy
import tokenizers
import xgrammar

SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
         r"|\s+")
END = "<|im_end|>"


class Vocabulary:
    """The arrays of strings of a GGUF file that has nothing else than constraint_vocabulary.py writes."""

    def __init__(self, path):
        self.data, self.at = open(path, "rb").read(), 24
        arrays = {}
        for _ in range(struct.unpack_from("<Q", self.data, 16)[0]):
            key, kind = self.string(), self.number("<I")
            if kind == 8:
                self.string()
                continue
            element, count = self.number("<I"), self.number("<Q")
            arrays[key] = [self.string() if element == 8 else self.number("<i") for _ in range(count)]
        self.tokens = arrays["tokenizer.ggml.tokens"]
        self.merges = [tuple(merge.split(" ")) for merge in arrays["tokenizer.ggml.merges"]]

    def number(self, form):
        value, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self):
        size = self.number("<Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def tokenizer(self):
        specials = [token for token in self.tokens if token.startswith("<|") and token.endswith("|>")]
        ordinary = {token: i for i, token in enumerate(self.tokens) if token not in specials}
        made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=ordinary, merges=self.merges))
        pre = tokenizers.pre_tokenizers
        made.pre_tokenizer = pre.Sequence([pre.Split(tokenizers.Regex(SPLIT), "isolated"),
                                           pre.ByteLevel(add_prefix_space=False, use_regex=False)])
        made.decoder = tokenizers.decoders.ByteLevel()
        made.add_special_tokens(specials)
        return made


def timed(times, call, *arguments):
    start = time.thread_time_ns()
    result = call(*arguments)
    times.append((time.thread_time_ns() - start) * 1e-3)
    return result


class XGrammar:
    def __init__(self, vocabulary, free_space):
        info = xgrammar.TokenizerInfo(vocabulary.tokens, vocab_type=xgrammar.VocabType.BYTE_LEVEL,
                                      vocab_size=len(vocabulary.tokens),
                                      stop_token_ids=[vocabulary.tokens.index(END)])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.free_space = free_space
        self.mask = xgrammar.allocate_token_bitmask(1, len(vocabulary.tokens))

    def compile(self, schema):
        self.grammar = self.compiler.compile_json_schema(schema, any_whitespace=self.free_space)

    def begin(self):
        self.matcher = xgrammar.GrammarMatcher(self.grammar)

    def fill(self):
        self.matcher.fill_next_token_bitmask(self.mask, 0)

    def accept(self, token):
        return self.matcher.accept_token(token)

    def allows(self, token):
        return bool(self.mask[0, token // 32].item() >> token % 32 & 1)


class LlGuidance:
    def __init__(self, vocabulary, free_space):
        self.tokenizer = llguidance.LLTokenizer(vocabulary.tokenizer().to_str(), eos_token=vocabulary.tokens.index(END))
        self.options = {"whitespace_flexible": free_space}
        if not free_space:
            self.options |= {"item_separator": ", ", "key_separator": ": "}
        self.mask = llguidance.numpy.allocate_token_bitmask(1, self.tokenizer.vocab_size)

    def compile(self, schema):
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema, defaults=self.options)
        self.first = llguidance.LLMatcher(self.tokenizer, grammar, log_level=0)
        if self.first.is_error():
            raise RuntimeError(self.first.get_error())

    def begin(self):
        self.matcher = self.first.deep_copy()

    def fill(self):
        llguidance.numpy.fill_next_token_bitmask(self.matcher, self.mask, 0)

    def accept(self, token):
        return self.matcher.consume_token(token)

    def allows(self, token):
        return bool(int(self.mask[0, token // 32]) >> token % 32 & 1)


def replay(peer, answer, masks, accepts):
    """False if the peer does not allow the answer."""
    peer.begin()
    for token in answer:
        timed(masks, peer.fill)
        if not peer.allows(token) or not timed(accepts, peer.accept, token):
            return False
    return True


def at(values, share):
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 2) if values else 0


def describe(values):
    return {"p50": at(values, .5), "p99": at(values, .99), "max": at(values, 1)}


def medians(rounds):
    return [statistics.median(times) for times in zip(*rounds)]


def measure(peer, schema, answers, rounds):
    """Milliseconds of compiling, and each token's times by pass; a sentence if the peer cannot be measured."""
    compiles, passes = [], {name: ([], []) for name in ("first", "later", "again")}
    for _ in range(rounds):
        timed(compiles, peer.compile, schema)
        for name, part in (("first", answers[:1]), ("later", answers[1:]), ("again", answers)):
            masks, accepts = [], []
            if not all(replay(peer, answer, masks, accepts) for answer in part):
                raise RuntimeError("an answer is not allowed")
            passes[name][0].append(masks)
            passes[name][1].append(accepts)
    return statistics.median(compiles) * 1e-3, {name: (medians(masks), medians(accepts))
                                                for name, (masks, accepts) in passes.items()}


class Totals:
    def __init__(self):
        self.compile_ms, self.refused, self.passes = [], {}, {name: ([], []) for name in ("first", "later", "again")}

    def add(self, name, peer, line, answers, rounds):
        try:
            compile_ms, passes = measure(peer, line, answers, rounds)
        except RuntimeError as error:
            self.refused[name] = str(error).splitlines()[0][:200]
            return
        self.compile_ms.append(compile_ms)
        for part, (masks, accepts) in passes.items():
            self.passes[part][0].extend(masks)
            self.passes[part][1].extend(accepts)

    def describe(self):
        result = {"compile_ms": describe(self.compile_ms), "not_measured": self.refused}
        for part, (masks, accepts) in self.passes.items():
            both = [mask + accept for mask, accept in zip(masks, accepts)]
            result[part] = {"tokens": len(masks), "mask_us": describe(masks), "mask_and_accept_us": describe(both)}
        return result


def main():
    bench, vocabulary_path, schemas_path = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    vocabulary = Vocabulary(vocabulary_path)
    tokenizer = vocabulary.tokenizer()
    peers = {}
    for free_space in (False, True):
        spaces = "free white space" if free_space else "json.dumps's white space"
        peers[f"XGrammar {importlib.metadata.version('xgrammar')}, {spaces}"] = XGrammar(vocabulary, free_space)
        peers[f"llguidance {importlib.metadata.version('llguidance')}, {spaces}"] = LlGuidance(vocabulary, free_space)
    totals = {name: Totals() for name in peers}
    empty = []
    command = [bench, vocabulary_path, schemas_path, str(rounds), str(8 << 20), "0"]
    ours = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout)]
    for line in map(json.loads, open(schemas_path)):
        answers = [tokenizer.encode(answer, add_special_tokens=False).ids for answer in line["answers"]]
        for name, peer in peers.items():
            totals[name].add(line["name"], peer, json.dumps(line["schema"]), answers, rounds)
        timed(empty, int)
    ours.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    result = {"rounds": rounds, "clock_us": at(empty, .5), "constraint_bench, before and after the peers": ours}
    print(json.dumps(result | {name: total.describe() for name, total in totals.items()}, indent=1))


main()
