#!/bin/sh
# Usage: sh findings/lmms-eval-openai-model.sh   (PyPI; 7 GB, minutes)
. "$(dirname "$0")/steps"
say "lmms-eval's openai model ends answers at a task's until, waits for timeout, and its samples' doc_hash tells questions apart." \
  "It sends neither, answers keep what stands after until, and doc_hash is the hash of null for all."
from_pypi lmms_eval==0.7.3 filelock==3.32.7
cat >"$folder/functions.py" <<'PYTHON'
def score(doc, results):
    return {"exact": float(results[0] == doc["answer"])}
PYTHON
cat >"$folder/task.yaml" <<YAML
task: numbers
dataset_path: json
dataset_kwargs: {data_files: {test: $folder/questions.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: question
doc_to_target: answer
process_results: !function functions.score
metric_list: [{metric: exact, aggregation: mean, higher_is_better: true}]
generation_kwargs: {until: [" and"], max_new_tokens: 9, temperature: 0, top_k: 1}
YAML
for number in 1 2; do echo '{"question": "question '$number'", "answer": "one"}'; done >"$folder/questions.jsonl"
cat >"$folder/run.py" <<'PYTHON'
import glob
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
import time

asked = []

class Stub(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked.append(sorted(body))
        time.sleep(4)
        data = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "one and two"}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass

os.chdir(sys.argv[1])
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=sys.argv[1] + "/cache", OPENAI_API_KEY="any")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
threading.Thread(target=server.serve_forever, daemon=True).start()
subprocess.run([sys.executable, "-m", "lmms_eval", "--model", "openai", "--include_path", ".", "--tasks", "numbers", "--log_samples",
                "--model_args", f"model=m,base_url=http://127.0.0.1:{server.server_port}/v1,max_retries=1,timeout=1",
                "--output_path", "out"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for fields in asked:
    print("sent:", *fields)
(path,) = glob.glob("out/*/*_samples_*.jsonl")
for line in open(path):
    sample = json.loads(line)
    print(f"after 4 seconds with timeout=1: {sample['filtered_resps']!r}, exact {sample['exact']}, doc_hash of",
          "null" if sample["doc_hash"] == hashlib.sha256(b"null").hexdigest() else "a document")
PYTHON
judge "sent: max_tokens messages model temperature
sent: max_tokens messages model temperature
after 4 seconds with timeout=1: 'one and two', exact 0.0, doc_hash of null
after 4 seconds with timeout=1: 'one and two', exact 0.0, doc_hash of null" \
  "$("$python" "$folder/run.py" "$folder" 2>"$folder/errors" || tail -n 1 "$folder/errors")"
