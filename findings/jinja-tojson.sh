#!/bin/sh
# Usage: sh findings/jinja-tojson.sh   (PyPI; half a minute)
. "$(dirname "$0")/steps"
say "A chat template is Jinja, so any Jinja renders it to the prompt that the model was trained with." \
  "transformers replaces tojson (Jinja's sorts keys and escapes for HTML) and drops line breaks after blocks."
from_pypi jinja2==3.1.6 transformers==5.24.0
found=$("$python" - <<'PYTHON' 2>/dev/null
import jinja2
from transformers.utils.chat_template_utils import render_jinja_template
template = "{% for tool in tools %}\n  {{ tool | tojson }}\n{% endfor %}\n"
tools = [{"type": "function", "function": {"name": "count", "description": "a < b & 'c' \u00e9"}}]
print("Jinja:", repr(jinja2.Environment().from_string(template).render(tools=tools)))
rendered, _ = render_jinja_template([[]], tools=tools, chat_template=template)
print("transformers:", repr(rendered[0]))
PYTHON
)
expected=$(cat <<'TEXT'
Jinja: '\n  {"function": {"description": "a \\u003c b \\u0026 \\u0027c\\u0027 \\u00e9", "name": "count"}, "type": "function"}\n'
transformers: '  {"type": "function", "function": {"name": "count", "description": "a < b & \'c\' é"}}\n'
TEXT
)
judge "$expected" "$found"
