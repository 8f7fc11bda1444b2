#!/bin/sh
# Usage: sh findings/gguf-empty-values.sh   (PyPI; half a minute)
. "$(dirname "$0")/steps"
say "gguf-py writes every key that a converter gives it." \
  "An empty array and an empty string are left out without a word: the file has no such key."
from_pypi gguf==0.19.0 numpy==2.4.6
found=$("$python" - "$folder/a.gguf" <<'PYTHON'
import sys
import gguf
writer = gguf.GGUFWriter(sys.argv[1], "llama")
for name, value in (("none", []), ("one", [7]), ("text", [""]), ("floats", [0.1])):
    writer.add_array("x." + name, value)
writer.add_string("x.string", "")
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.close()
for name, field in gguf.GGUFReader(sys.argv[1]).fields.items():
    if name.startswith("x."):
        print(name, *(kind.name for kind in field.types), field.contents())
PYTHON
)
judge "x.one ARRAY INT32 [7]
x.text ARRAY STRING ['']
x.floats ARRAY FLOAT32 [0.10000000149011612]" "$found"
