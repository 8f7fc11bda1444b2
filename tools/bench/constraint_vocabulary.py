"""A vocabulary of 151,646 tokens for constraint_bench: Qwen's, as the PyPI package `dashscope` ships it.

    pip download --no-deps dashscope; unzip -p dashscope-*.whl dashscope/resources/qwen.tiktoken > qwen.tiktoken
    constraint_vocabulary.py qwen.tiktoken vocabulary.gguf

The file of ranks has no merges: the merge that makes a token joins the two parts that the merges of lower rank leave."""
import base64
import struct
import sys

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
GGUF_INT32, GGUF_STRING, GGUF_ARRAY = 5, 8, 9
NORMAL, CONTROL = 1, 3


def byte_spellings():
    """GPT-2's characters for bytes: printable ones stand for themselves, others for those from 256 on."""
    stays = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in stays]
    return {byte: chr(byte) for byte in stays} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def last_merge(token, ranks):
    """The two parts of a token before its own merge; None for a token that its merges do not reach."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        pairs = [ranks.get(left + right, len(ranks)) for left, right in zip(parts, parts[1:])]
        best = pairs.index(min(pairs))
        if pairs[best] >= ranks[token]:
            return None
        parts[best:best + 2] = [parts[best] + parts[best + 1]]
    return parts


def packed_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def packed_entry(key, kind, data):
    return packed_string(key) + struct.pack("<I", kind) + data


def packed_array(key, kind, items):
    return packed_entry(key, GGUF_ARRAY, struct.pack("<IQ", kind, len(items)) + b"".join(items))


def main():
    lines = [line.split() for line in open(sys.argv[1], "rb")]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    spelled = byte_spellings()
    tokens = ["".join(spelled[byte] for byte in token) for token in sorted(ranks, key=ranks.get)]
    merges = []
    for token in sorted(ranks, key=ranks.get):
        parts = last_merge(token, ranks) if len(token) > 1 else None
        if parts:
            merges.append(" ".join("".join(spelled[byte] for byte in part) for part in parts))
    kinds = [NORMAL] * len(tokens) + [CONTROL] * len(CONTROL_TOKENS)
    tokens += CONTROL_TOKENS
    entries = [
        packed_entry("tokenizer.ggml.model", GGUF_STRING, packed_string("gpt2")),
        packed_entry("tokenizer.ggml.pre", GGUF_STRING, packed_string("qwen2")),
        packed_array("tokenizer.ggml.tokens", GGUF_STRING, [packed_string(token) for token in tokens]),
        packed_array("tokenizer.ggml.token_type", GGUF_INT32, [struct.pack("<i", kind) for kind in kinds]),
        packed_array("tokenizer.ggml.merges", GGUF_STRING, [packed_string(merge) for merge in merges]),
    ]
    with open(sys.argv[2], "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))
    print(f"{len(tokens)} tokens, {len(merges)} merges")


main()
