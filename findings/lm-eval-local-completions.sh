#!/bin/sh
# Usage: sh findings/lm-eval-local-completions.sh   (PyPI; minutes)
. "$(dirname "$0")/steps"
say "lm-eval asks a completions server with text, and needs /v1/completions alone." \
  "Without a tokenizer of its own it asks /tokenizer_info and /tokenize, sends token ids, and reads choices by echo."
from_pypi 'lm_eval[api]==0.4.13'
found=$(HF_HUB_OFFLINE=1 "$python" - <<'PYTHON' 2>/dev/null
import http.server
import json
import threading

class Stub(http.server.BaseHTTPRequestHandler):
    def answer(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        print("GET", self.path, flush=True)
        self.answer({"eos_token": "</s>", "bos_token": None, "pad_token": None, "chat_template": None})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print("POST", self.path, json.dumps(body, sort_keys=True), flush=True)
        if self.path == "/tokenize":
            return self.answer({"tokens": list(body["prompt"].encode())})
        tokens = len(body["prompt"][0]) + 1
        told = {"token_logprobs": [None] + [-1.0] * (tokens - 1), "tokens": ["a"] * tokens, "top_logprobs": [None] + [{"a": -1.0}] * (tokens - 1)}
        self.answer({"choices": [{"index": 0, "text": "x", "logprobs": told}]})

    def log_message(self, *arguments):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Stub)
threading.Thread(target=server.serve_forever, daemon=True).start()
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI
model = LocalCompletionsAPI(model="m", base_url=f"http://127.0.0.1:{server.server_port}/v1/completions",
                            tokenizer_backend="remote", max_length=64)
model.loglikelihood([Instance("loglikelihood", {}, ("A: ", "two"), 0)])
model.generate_until([Instance("generate_until", {}, ("Say:", {"until": ["\n"], "max_gen_toks": 5}), 0)])
PYTHON
)
expected=$(cat <<'TEXT'
GET /tokenizer_info
POST /tokenize {"add_special_tokens": false, "prompt": "A: two"}
POST /tokenize {"add_special_tokens": false, "prompt": "A:"}
GET /tokenizer_info
POST /v1/completions {"echo": true, "logprobs": 1, "max_tokens": 1, "model": "m", "prompt": [[65, 58, 32, 116, 119, 111]], "seed": 1234, "temperature": 0}
POST /tokenize {"add_special_tokens": false, "prompt": "Say:"}
POST /v1/completions {"max_tokens": 5, "model": "m", "prompt": [[83, 97, 121, 58]], "seed": 1234, "stop": ["\n", "</s>"], "temperature": 0}
TEXT
)
judge "$expected" "$found"
