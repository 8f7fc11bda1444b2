#!/bin/sh
# Usage: sh findings/lmms-eval-failed-requests.sh   (PyPI; 7 GB, minutes)
. "$(dirname "$0")/steps"
say "lmms-eval's score is one of answers: a request that fails ends the run, or is left out." \
  "The error's text is scored as the answer, and the exit code is 0. Without any server the score is 0."
from_pypi lmms_eval==0.7.3 filelock==3.32.7
cat >"$folder/functions.py" <<'PYTHON'
def score(doc, results):
    return {"exact": float(results[0] == doc["answer"])}
PYTHON
cat >"$folder/task.yaml" <<YAML
task: yes_or_no
dataset_path: json
dataset_kwargs: {data_files: {test: $folder/questions.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: question
doc_to_target: answer
process_results: !function functions.score
metric_list: [{metric: exact, aggregation: mean, higher_is_better: true}]
YAML
for number in 1 2 3 4; do echo '{"question": "question '$number'", "answer": "yes"}'; done >"$folder/questions.jsonl"
cat >"$folder/run.py" <<'PYTHON'
import glob
import http.server
import json
import os
import subprocess
import sys
import threading

class Stub(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        fails = b"question 3" in body
        answer = {"error": {"message": "no room"}} if fails else {"choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]}
        data = json.dumps(answer).encode()
        self.send_response(400 if fails else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass

def evaluate(port, out):
    done = subprocess.run([sys.executable, "-m", "lmms_eval", "--model", "openai", "--include_path", ".", "--tasks", "yes_or_no",
                           "--model_args", f"model=m,base_url=http://127.0.0.1:{port}/v1,max_retries=1", "--log_samples",
                           "--output_path", out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (results,), (samples,) = glob.glob(f"{out}/*/*_results.json"), glob.glob(f"{out}/*/*_samples_*.jsonl")
    exact = json.load(open(results))["results"]["yes_or_no"]["exact,none"]
    print(f"{out}: exit code {done.returncode}, exact {exact}, answers:")
    for line in open(samples):
        print(json.loads(line)["filtered_resps"])

os.chdir(sys.argv[1])
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=sys.argv[1] + "/cache", OPENAI_API_KEY="any")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
threading.Thread(target=server.serve_forever, daemon=True).start()
evaluate(server.server_port, "one_fails")
server.shutdown()
server.server_close()
evaluate(server.server_port, "no_server")
PYTHON
failed="[LMMS_EVAL_REQUEST_FAILED after 1 retries]"
judge "one_fails: exit code 0, exact 0.75, answers:
yes
yes
$failed Error code: 400 - no room
yes
no_server: exit code 0, exact 0.0, answers:
$failed Connection error.
$failed Connection error.
$failed Connection error.
$failed Connection error." "$("$python" "$folder/run.py" "$folder" 2>"$folder/errors" || tail -n 1 "$folder/errors")"
