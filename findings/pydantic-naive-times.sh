#!/bin/sh
# Usage: sh findings/pydantic-naive-times.sh   (PyPI; half a minute)
. "$(dirname "$0")/steps"
say "What pydantic writes is valid under the schema that pydantic writes." \
  "A datetime without a zone is not: the format date-time needs one. pydantic reads it again all the same."
from_pypi pydantic==2.14.4 jsonschema==4.26.0 rfc3339-validator==0.1.4
found=$("$python" - <<'PYTHON'
import datetime
import json
import jsonschema
import pydantic
formats = jsonschema.FormatChecker()
for kind, value in ((datetime.datetime, datetime.datetime(2026, 11, 29, 9, 30)),
                    (datetime.datetime, datetime.datetime(2026, 11, 29, 9, 30, tzinfo=datetime.timezone.utc))):
    adapter = pydantic.TypeAdapter(kind)
    schema, text = adapter.json_schema(mode="serialization"), adapter.dump_json(value).decode()
    allowed = jsonschema.Draft202012Validator(schema, format_checker=formats).is_valid(json.loads(text))
    print(f"{json.dumps(schema)}: {text} is {'valid' if allowed else 'not valid'}, "
          f"{'read again' if adapter.validate_json(text) == value else 'not read again'}")
PYTHON
)
expected=$(cat <<'TEXT'
{"format": "date-time", "type": "string"}: "2026-11-29T09:30:00" is not valid, read again
{"format": "date-time", "type": "string"}: "2026-11-29T09:30:00Z" is valid, read again
TEXT
)
judge "$expected" "$found"
