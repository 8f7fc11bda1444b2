"""Makes the tiny vocabularies and expected token ids in tests/data/tokenizers.

Each byte-level vocabulary is trained with the public `tokenizers` library and the pre-tokenizer of its model family, and
so is one like Gemma 4's, whose characters merge; the SentencePiece one with the public `sentencepiece` library. Those libraries also say which ids each text must become.

usage: make_tokenizer_fixtures.py OUT_DIR [--bundled TOKENIZER_JSON] [--texts COUNT]
needs: pip install tokenizers sentencepiece gguf
"""
import argparse
import io
import json
import pathlib
import random
import unicodedata

import gguf
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
CONTROLS = ["<|begin|>", "<|im_end|>", "<|im_end|>!", "<image>"]
USER_DEFINED = ["<tool>", "<tool>box", "@@"]
SPACED_CONTROLS = ["<pad>", "<eos>", "<bos>", "<unk>", *CONTROLS]

CORPUS = """The quick brown fox jumps over the lazy dog. It's what they'll say, isn't it? We've seen 1234567 of them, I'd bet.
A large green star at the top left, a small red circle at the bottom right; on a gray background.
for (int i = 0; i < 100; ++i) { total += values[i] * 3.14159; }  // adds them up
    def main(args):\n        return [x ** 2 for x in range(10)]\n\n\nif __name__ == "__main__":\n\tmain()\n
Der schnelle braune Fuchs springt über den faulen Hund. Größe: 42 µm² – ½ Liter.
Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter en canoë au delà des îles.
Быстрая коричневая лиса перепрыгивает через ленивую собаку. Η γρήγορη καφέ αλεπού πηδάει.
素早い茶色の狐がのろまな犬を飛び越えた。敏捷的棕色狐狸跳过懒狗。빠른 갈색 여우가 게으른 개를 뛰어넘다.
الثعلب البني السريع يقفز فوق الكلب الكسول. तेज भूरी लोमड़ी आलसी कुत्ते पर कूदती है।
!!! ??? ... --- === ### *** "quoted" (brackets) [more] {even more} <tags> a/b\\c x_y @home #tag $5.00 100% & so on…
""".replace("\\n", "\n").replace("\\t", "\t")

NASTY = [
    "", " ", "  ", "   ", "\n", "\n\n", "\n\n\n", " \n", "\n ", " \n\n ", "\t", "\t\t x", "a", " a", "a ", "  a  ", "a  b   c    d",
    "\r\n", "\r\n\r\n x", "x\r\n y", "'", "''", "'s", "'S", "it's IT'S It'LL we'Ve I'D 'RE", "'\u017fa", "a'\u017fb", "'ll'll", "'l", "'r e", " 's", "x 's",
    "0", "12", "123", "1234", "12345678", " 1", "  12", "a1b22c333", "1 2  3   4", "\u00bd\u00b2\u0663\u216b\u3007", " \u0664\u0662 ", "5\u00a06",
    "\u00a0", "\u00a0a", "a\u3000b", "\u3000\u3000", "\u2003 x", "\u2028y", "\u0085z", "!\u0085\u00a0\u2029!", "\u200b \u200c", "\x1c \x1f", "\x00", "a\x00b", "\x7f",
    "e\u0301\u0301 n\u0303", "\u0915\u094d\u0937\u093f", "\u1100\u1161\u11a8", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", " \U0001f1e9\U0001f1ea!", "\ufeffx", "\ufffd",
    "\U00010400\U0001d54f", "\u01c5\u02b0", "\u00aa\u00ba", "\u2460\u3220", "_", "__init__", "a_b", "#!/bin/sh\n", "...\n\n", " ...\r\n\n x", "!\n!", " !\n", "?? \n",
    "{\n    \"k\": [1, 2,\n\t3]\n}\n", "x" * 70, " " * 70, "\n" * 40, "ab" * 40, "1" * 40, "!" * 40, " \n" * 20, "\t \t " * 9, "\u2581", "a\u2581b \u2581 c", "<0x41>", "<unk>", "<s>",
]
SPECIAL_TEXTS = [
    "<|im_end|>", "<|im_end|>!", "x<|im_end|>!!", " <|im_end|> ", "<|im_end|", "<<|im_end|>>", "<image><image>\n<image> a", "a<tool>b", "a <tool> b",
    "<tool>bo", "<tool>box", "<tool>boxes", "@@@", "@@@@ @", "<|begin|>User: hi<|im_end|>\n", "<tool><|begin|><tool>box<image>", "1<image>2  <image>  3",
]


def make_texts(count, seed):
    """`count` random texts after the nasty ones: cut from the corpus, of random characters of all classes, or both."""
    rng = random.Random(seed)
    pool = [chr(c) for c in range(0x20000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    spaces = [" ", " ", " ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "  "]
    bits = list("aZ09'._-!/") + ["'s", "'ll", "'T", "the", " the", "123", "\u00e9", "\u00df", "\u4e2d", "\u0416", "\U0001f600"]
    texts = NASTY + SPECIAL_TEXTS
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 8)):
            way = rng.randrange(5)
            start = rng.randrange(len(CORPUS))
            parts.append(CORPUS[start:start + rng.randint(1, 12)] if way == 0 else
                         "".join(rng.choice(spaces) for _ in range(rng.randint(1, 3))) if way == 1 else
                         "".join(rng.choice(bits) for _ in range(rng.randint(1, 6))) if way == 2 else
                         rng.choice(pool) if way == 3 else
                         rng.choice(CONTROLS + USER_DEFINED) if rng.randrange(3) == 0 else rng.choice(spaces))
        texts.append("".join(parts))
    return texts


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


PRE_TOKENIZERS = {
    "gpt-2": byte_level(True),
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]),
    "qwen2": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), byte_level(False)]),
    "llama-bpe": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), byte_level(False)]),
    "tekken": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(TEKKEN), "isolated"), byte_level(False)]),
}


def train_byte_pair(pre, vocab_size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([CORPUS], trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False))
    described = json.loads(tokenizer.to_str())
    if pre in ("llama-bpe", "tekken"):  # whole pieces that no merges lead to
        described["model"]["ignore_merges"] = True
        for text in ("\u0120quick", "\u0120unreachable", "\u010a\u010a\u010a", "999"):
            described["model"]["vocab"].setdefault(text, len(described["model"]["vocab"]))
    tokenizer = Tokenizer.from_str(json.dumps(described))
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in CONTROLS])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in USER_DEFINED])
    return tokenizer


def train_spaced_pair(vocab_size, first, lines):
    """Like Gemma 4's: characters merge by rank, spaces are spelled U+2581, and so are the bytes of others and runs of line
    breaks pieces. `first`: the first pieces, before the bytes."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    special = first + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    described = json.loads(tokenizer.to_str())
    vocabulary, merges = described["model"]["vocab"], [list(merge) for merge in described["model"]["merges"]]
    for text in ("\n", "\n\n", "\n\n\n", "\n\n\n\n"):
        vocabulary[text] = len(vocabulary)
        if len(text) > 1:
            merges.append([text[:-1], "\n"])
    return vocabulary, merges


def make_spaced_pair(vocab_size):
    vocabulary, merges = train_spaced_pair(vocab_size, ["<pad>", "<eos>", "<bos>", "<unk>"], CORPUS.splitlines())
    model = models.BPE(vocabulary, [tuple(merge) for merge in merges], byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in SPACED_CONTROLS])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in USER_DEFINED])
    return tokenizer, merges


def write_spaced_pair(tokenizer, merges, path):
    ids = tokenizer.get_vocab(with_added_tokens=True)
    tokens = sorted(ids, key=ids.get)
    kinds = [gguf.TokenType.UNKNOWN if t == "<unk>" else gguf.TokenType.CONTROL if t in SPACED_CONTROLS else
             gguf.TokenType.USER_DEFINED if t in USER_DEFINED else
             gguf.TokenType.BYTE if t.startswith("<0x") else gguf.TokenType.NORMAL for t in tokens]
    writer = new_writer(path, "gemma4")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) for merge in merges])
    for name in ("bos", "eos"):
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", ids[f"<{name}>"])
    finish(writer)


def new_writer(path, model):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    return writer


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def write_byte_pair(tokenizer, pre, path):
    described = json.loads(tokenizer.to_str())
    ids = tokenizer.get_vocab(with_added_tokens=True)
    tokens = sorted(ids, key=ids.get)
    assert [ids[t] for t in tokens] == list(range(len(tokens)))
    kinds = [gguf.TokenType.CONTROL if t in CONTROLS else gguf.TokenType.USER_DEFINED if t in USER_DEFINED else gguf.TokenType.NORMAL
             for t in tokens]
    writer = new_writer(path, "gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in described["model"]["merges"]])
    writer.add_bos_token_id(ids["<|begin|>"])
    writer.add_eos_token_id(ids["<|im_end|>"])
    finish(writer)


def expect_byte_pair(tokenizer, texts):
    """[text, ids with specials parsed, ids without]; the last only where it differs."""
    cases = []
    for text in texts:
        tokenizer.encode_special_tokens = False
        parsed = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append([text, parsed] if parsed == plain else [text, parsed, plain])
    return cases


def train_sentence_piece(vocab_size):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.splitlines()), model_writer=model, model_type="bpe", vocab_size=vocab_size, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, character_coverage=0.98,
        allow_whitespace_only_pieces=True, control_symbols=CONTROLS, minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def write_sentence_piece(model, path):
    count = model.get_piece_size()
    kinds = [gguf.TokenType.UNKNOWN if model.is_unknown(i) else gguf.TokenType.CONTROL if model.is_control(i) else
             gguf.TokenType.BYTE if model.is_byte(i) else gguf.TokenType.NORMAL for i in range(count)]
    writer = new_writer(path, "llama")
    writer.add_token_list([model.id_to_piece(i) for i in range(count)] + USER_DEFINED)
    writer.add_token_scores([model.get_score(i) for i in range(count)] + [0.0] * len(USER_DEFINED))
    writer.add_token_types(kinds + [gguf.TokenType.USER_DEFINED] * len(USER_DEFINED))
    finish(writer)


def encode_around(model, text, specials):
    """Specials first, leftmost and longest; what lies between them is encoded as texts of their own."""
    ids, begin, at = [], 0, 0
    while at < len(text):
        found = max((s for s in specials if text.startswith(s, at)), key=len, default=None)
        if found is None:
            at += 1
            continue
        ids += (model.encode(text[begin:at]) if at > begin else []) + [specials[found]]
        at += len(found)
        begin = at
    return ids + (model.encode(text[begin:]) if begin < len(text) else [])


def expect_sentence_piece(model, texts):
    user_defined = {text: model.get_piece_size() + i for i, text in enumerate(USER_DEFINED)}
    specials = user_defined | {text: model.piece_to_id(text) for text in CONTROLS + ["<unk>", "<s>", "</s>"]}
    cases = []
    for text in texts:
        parsed, plain = encode_around(model, text, specials), encode_around(model, text, user_defined)
        cases.append([text, parsed] if parsed == plain else [text, parsed, plain])
    return cases


def expect_pieces(texts):
    """[text, byte lengths of its pieces per pre-tokenizer]."""
    cases = []
    for text in texts:
        offsets = [[span for _, span in pre.pre_tokenize_str(text)] for pre in PRE_TOKENIZERS.values()]
        cases.append([text] + [[len(text[begin:end].encode()) for begin, end in spans] for spans in offsets])
    return cases


def write_cases(path, cases):
    path.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out_dir", type=pathlib.Path)
    parser.add_argument("--bundled", help="tokenizer.json of the bundled model")
    parser.add_argument("--texts", type=int, default=60, help="random texts per vocabulary")
    args = parser.parse_args()
    args.out_dir.mkdir(parents=True, exist_ok=True)
    for seed, pre in enumerate(PRE_TOKENIZERS):
        tokenizer = train_byte_pair(pre, 400)
        write_byte_pair(tokenizer, pre, args.out_dir / f"{pre}.gguf")
        write_cases(args.out_dir / f"{pre}.json", expect_byte_pair(tokenizer, make_texts(args.texts, seed)))
    write_cases(args.out_dir / "pieces.json", expect_pieces(make_texts(args.texts, 9)))
    model = train_sentence_piece(560)
    write_sentence_piece(model, args.out_dir / "llama.gguf")
    write_cases(args.out_dir / "llama.json", expect_sentence_piece(model, make_texts(args.texts, 10)))
    tokenizer, merges = make_spaced_pair(560)
    write_spaced_pair(tokenizer, merges, args.out_dir / "gemma4.gguf")
    write_cases(args.out_dir / "gemma4.json", expect_byte_pair(tokenizer, make_texts(args.texts, 12)))
    if args.bundled:
        tokenizer = Tokenizer.from_file(args.bundled)
        write_cases(args.out_dir / "shapeboard.json", expect_byte_pair(tokenizer, make_texts(args.texts, 11)))


if __name__ == "__main__":
    main()
