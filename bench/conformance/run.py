#!/usr/bin/env python3
"""Which responses curl, wrk, h2load and rxlab read, side by side; those that are installed.

    bench/conformance/run.py [--program FILE] [--only TEXT] [--out FILE]

Each response of framings.py is served as it is. A cell is `yes` if the client took it as a response with its status, `no`
if it reported an error, and `waits` if it was still waiting after two seconds. wrk sends for a second; the others
send three requests, h2load one, because it opens no second connection. For rxlab the class of the error is named."""

import argparse
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
from framings import CLOSE, FRAMINGS

HERE = Path(__file__).resolve().parent
BODY = 1_000_000
WAIT = 2


def serve(listener):
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=converse, args=(connection,), daemon=True).start()


def converse(connection):
    """Answers each request on a connection with the framing of the number in its path."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    seen = b""
    try:
        while True:
            while b"\r\n\r\n" not in seen:
                more = connection.recv(65536)
                if not more:
                    return
                seen += more
            head, seen = seen.split(b"\r\n\r\n", 1)
            framing = FRAMINGS[int(re.match(rb"\w+ /(\d+)", head).group(1))]
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            left = 0 if framing.early or not length else int(length.group(1)) - len(seen)
            while left > 0:
                left -= len(connection.recv(65536))
            if length:
                seen = b""
            step = 1 if framing.bytewise else max(len(framing.head), 1)
            for at in range(0, len(framing.head), step):
                connection.sendall(framing.head[at : at + step])
                time.sleep(0.0005 if framing.bytewise else 0)
            if framing.closes is CLOSE:
                if framing.early:
                    # What is unread would reset the connection before the answer was read.
                    connection.shutdown(socket.SHUT_WR)
                    connection.settimeout(WAIT)
                    while connection.recv(65536):
                        pass
                return
    except (OSError, AttributeError):
        pass
    finally:
        connection.close()


def run(command):
    """Output and exit code, which is None of a client that does not end."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=4 * WAIT, check=False)
    except subprocess.TimeoutExpired:
        return "", None
    return (done.stdout + done.stderr).decode(errors="replace"), done.returncode


def curl(url, framing, body):
    how = {"HEAD": ["--head"], "POST": ["--data-binary", f"@{body}", "-H", "Expect:"]}.get(framing.method, [])
    command = ["curl", "-s", "-o", "/dev/null", "--max-time", str(WAIT), *how, url, "-o", "/dev/null", url]
    code = run(command)[1]
    return {0: "yes", 28: "waits"}.get(code, f"no ({code})")


def wrk(url, framing, body):
    script = tempfile.NamedTemporaryFile("w", suffix=".lua")
    script.write(f'wrk.method = "{framing.method}"\n')
    if framing.method == "POST":
        script.write(f'wrk.body = string.rep("x", {BODY})\n')
    script.flush()
    text, _ = run(["wrk", "-t1", "-c1", "-d1s", "-s", script.name, url])
    requests = int((re.search(r"(\d+) requests in", text) or [0, 0])[1])
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    errors = [int(count) for count in errors.groups()] if errors else [0, 0, 0, 0]
    if errors[3] > 0 or (requests == 0 and sum(errors) == 0):
        return "waits"
    return "yes" if requests > 0 and sum(errors) == 0 else "no"


def h2load(url, framing, body):
    how = {"HEAD": ["-H", ":method: HEAD"], "POST": ["-d", body]}.get(framing.method, [])
    text, code = run(["h2load", "--h1", "-n1", "-c1", "-N", str(WAIT), "-T", str(WAIT), *how, url])
    counts = re.search(r"(\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", text)
    if not counts or code is None:
        return "waits"
    done, succeeded, failed, errored, timeout = map(int, counts.groups())
    if timeout or done == 0:
        return "waits"
    return "no" if errored else "yes"


def rxlab(program):
    def client(url, framing, body):
        how = {"HEAD": ["--method", "HEAD"], "POST": ["--method", "POST", "--body", f"@{body}"]}
        command = [program, "load", url, "--json", "-c1", "--requests", "3", "--timeout", f"{WAIT}s"]
        text, _ = run(command + how.get(framing.method, []))
        start = text.find("{")
        if start < 0:
            return f"no ({text.strip()[:60]})"
        report = json.JSONDecoder().raw_decode(text[start:])[0]
        errors = {kind: count for kind, count in report["errors"].items() if not kind.startswith("status")}
        if not errors:
            return "yes" if sum(report["statuses"].values()) == 3 else "no"
        return "waits" if list(errors) == ["timeout"] else f"no ({', '.join(errors)})"

    return client


def version(command):
    text, _ = run(command)
    return text.strip().splitlines()[0].split(" [")[0].split(" (")[0]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--program", default=str(HERE.parent.parent / "target/release/rxlab"))
    parser.add_argument("--only", default="")
    parser.add_argument("--out")
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listener.getsockname()[1]
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    body = tempfile.NamedTemporaryFile()
    body.write(b"x" * BODY)
    body.flush()
    peers = {"curl": curl, "wrk": wrk, "h2load": h2load}
    clients = {name: client for name, client in peers.items() if shutil.which(name)}
    clients["rxlab"] = rxlab(options.program)
    lines = [
        "Responses that each client reads: " + " ".join(["bench/conformance/run.py", *sys.argv[1:]]),
        *(version([name, "-v" if name == "wrk" else "--version"]) for name in clients if name != "rxlab"),
        version([options.program, "--version"]),
        "",
        (f"{'response':<36}" + "".join(f"{name:<10}" for name in clients)).rstrip(),
    ]
    counts = {name: 0 for name in clients}
    for number, framing in enumerate(FRAMINGS):
        if options.only not in framing.name:
            continue
        url = f"http://127.0.0.1:{port}/{number}"
        cells = {name: client(url, framing, body.name) for name, client in clients.items()}
        for name, cell in cells.items():
            counts[name] += cell == "yes"
        lines.append(f"{framing.name:<36}" + "".join(f"{cell:<10}" for cell in cells.values()).rstrip())
        print(lines[-1], file=sys.stderr)
    lines += ["", f"{'read':<36}" + "".join(f"{count:<10}" for count in counts.values()).rstrip()]
    text = "\n".join(lines) + "\n"
    if options.out:
        Path(options.out).write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
