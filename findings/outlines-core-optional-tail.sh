#!/bin/sh
# Usage: sh findings/outlines-core-optional-tail.sh   (PyPI; seconds)
. "$(dirname "$0")/steps"
say "Its index allows every token with which a text of the expression can go on." \
  "Where a text may end, tokens after which it may not are left out: a number never gets a point that is a token."
from_pypi outlines-core==0.2.14
found=$("$python" - <<'PYTHON'
from outlines_core import Index, Vocabulary
END = 300
plain = {chr(b): [b] for b in range(32, 127)}
for name, tokens in (("single characters", plain), ("and a token .50", plain | {".50": [200]})):
    vocabulary = Vocabulary(END, tokens)
    names = {ids[0]: token for token, ids in tokens.items()} | {END: "the end"}
    for expression, text in ((r"1(\.50)?", "1"), (r"1(5)?", "1"), (r"(0|[1-9][0-9]*)(\.[0-9]+)?", "12")):
        index = Index(expression, vocabulary)
        state = index.get_initial_state()
        for c in text:
            state = index.get_next_state(state, ord(c))
        allowed = sorted(names[token] for token in index.get_allowed_tokens(state))
        print(f"{name}, {expression}, after {text}:", " ".join(allowed))
PYTHON
)
expected=$(cat <<'TEXT'
single characters, 1(\.50)?, after 1: the end
single characters, 1(5)?, after 1: 5 the end
single characters, (0|[1-9][0-9]*)(\.[0-9]+)?, after 12: 0 1 2 3 4 5 6 7 8 9 the end
and a token .50, 1(\.50)?, after 1: .50 the end
and a token .50, 1(5)?, after 1: 5 the end
and a token .50, (0|[1-9][0-9]*)(\.[0-9]+)?, after 12: .50 0 1 2 3 4 5 6 7 8 9 the end
TEXT
)
judge "$expected" "$found"
