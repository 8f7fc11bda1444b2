#!/bin/sh
# Usage: sh findings/libcurl-low-speed-time.sh   (PyPI; a minute)
. "$(dirname "$0")/steps"
say "With LOW_SPEED_TIME 3 and LOW_SPEED_LIMIT 1, libcurl cuts a transfer when no byte has come for 3 seconds." \
  "So it is only before the first byte. After one the speed is an average, and some 6 seconds more go by, whatever the limit."
from_pypi pycurl==7.49.0
cat >"$folder/run.py" <<'PYTHON'
import socket
import threading
import time

import pycurl

server = socket.create_server(("127.0.0.1", 0))

def serve(first, open_connections):  # `first` bytes of a body of 100 MB, then silence
    connection, _ = server.accept()
    connection.recv(65536)
    if first:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"x" * first)
    open_connections.append(connection)

def fetch(first, limit_s):
    open_connections, last_byte = [], [time.monotonic()]
    threading.Thread(target=serve, args=(first, open_connections), daemon=True).start()
    client = pycurl.Curl()
    client.setopt(pycurl.URL, f"http://127.0.0.1:{server.getsockname()[1]}/")
    client.setopt(pycurl.WRITEFUNCTION, lambda data: last_byte.append(time.monotonic()))
    client.setopt(pycurl.LOW_SPEED_TIME, limit_s)
    client.setopt(pycurl.LOW_SPEED_LIMIT, 1)
    try:
        client.perform()
    except pycurl.error as error:
        late_s = time.monotonic() - last_byte[-1] - limit_s
        when = "at once" if late_s < 2 else "4 to 8 s later" if 4 < late_s < 8 else f"{late_s:.1f} s later"
        print(f"{first} bytes, then silence, limit {limit_s} s: {when}, code {error.args[0]}")

print(pycurl.version.split()[1])
for first, limit_s in ((0, 1), (0, 3), (1000, 1), (1000, 3), (1000, 10), (10000000, 3)):
    fetch(first, limit_s)
PYTHON
judge "libcurl/8.23.0
0 bytes, then silence, limit 1 s: at once, code 28
0 bytes, then silence, limit 3 s: at once, code 28
1000 bytes, then silence, limit 1 s: 4 to 8 s later, code 28
1000 bytes, then silence, limit 3 s: 4 to 8 s later, code 28
1000 bytes, then silence, limit 10 s: 4 to 8 s later, code 28
10000000 bytes, then silence, limit 3 s: 4 to 8 s later, code 28" "$("$python" "$folder/run.py" 2>&1)"
