"""An example: a simulated user behind HTTP, in the protocol `usersim-guard/remote/1`. Standard library only.

    python examples/remote_server.py --port 8700
    usersim-guard score --simulator remote --url http://127.0.0.1:8700 --name example --send-oracle --out runs/example

It explains the annotated term that a question mentions, and refuses everything else: a toy, to be replaced by yours.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_BYTES = 1 << 20


def reply_to(request: dict[str, Any]) -> str:
    """The reply to one question; `request` holds `oracle` only when the caller sends it."""
    question = request["question"].casefold()
    for ambiguity in request.get("oracle", {}).get("ambiguities", []):
        if ambiguity["term"].casefold() in question:
            return f"By that I mean {ambiguity['meaning']}."
    return "I can't help you with that."


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self.path != "/answer" or length > MAX_BYTES:
            self.close_connection = True  # the body was not read
            self.send_json(404, {"detail": "POST /answer"})
            return
        self.send_json(200, {"reply": reply_to(json.loads(self.rfile.read(length))), "model": "example"})

    def send_json(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a line a question helps nobody."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8700, help="0 takes a free one")
    with ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201 - its address, for people and scripts
        server.serve_forever()


if __name__ == "__main__":
    main()
