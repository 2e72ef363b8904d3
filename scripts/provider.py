#!/usr/bin/env python3
"""A model provider on 127.0.0.1 that plays a script, for runs with a real agent and no key.

    python3 scripts/provider.py --script runs/fake-provider.script.json --port-file PORT --log LOG

It speaks the streaming Messages API as far as one conversation with tool calls needs it. Which turn of the script is
played follows from the conversation itself (how many replies it holds already), so retried requests and conversations
side by side each get their own turn. Every answer is one JSON line of the log, with the tokens that were served.

In the arguments of a tool call, `{cwd}` becomes the first absolute path that a tool call of the conversation printed on
a line of its own: a script begins with `pwd` where later calls need absolute paths.
"""

import argparse
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE_FIELDS = {
    "input": "input_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "output": "output_tokens",
}


def text_of(content):
    """The text of a message's or a tool result's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content or [] if block.get("type") == "text")


def working_directory(messages):
    """The first line of a tool result that is an absolute path and nothing else."""
    for message in messages:
        if message.get("role") != "user" or isinstance(message.get("content"), str):
            continue
        for block in message.get("content") or []:
            if block.get("type") == "tool_result":
                lines = text_of(block.get("content")).splitlines()
                paths = [line for line in lines if line.startswith("/")]
                if paths:
                    return paths[0]
    return ""


def filled_in(value, cwd):
    """A copy of a call's arguments with `{cwd}` filled in."""
    if isinstance(value, str):
        return value.replace("{cwd}", cwd)
    if isinstance(value, dict):
        return {key: filled_in(item, cwd) for key, item in value.items()}
    return value


class Script:
    """The turns to play, and the log of what was served."""

    def __init__(self, path, log):
        with open(path, encoding="utf-8") as file:
            self.turns = json.load(file)["turns"]
        if not self.turns:
            raise ValueError(f"{path}: no turns")
        self.log_file = open(log, "a", encoding="utf-8")
        self.lock = threading.Lock()
        self.serial = 0

    def next_serial(self):
        with self.lock:
            self.serial += 1
            return self.serial

    def turn(self, request):
        """The number of the turn that a request asks for, and the turn; side requests without tools get a short one."""
        if not request.get("tools"):
            return None, {"text": "ok", "usage": {"input": 10, "output": 2}}
        number = sum(1 for message in request["messages"] if message.get("role") == "assistant")
        return number, self.turns[min(number, len(self.turns) - 1)]

    def record(self, **entry):
        with self.lock:
            self.log_file.write(json.dumps(entry) + "\n")
            self.log_file.flush()


def blocks_of(turn, messages, serial):
    """The content blocks of a reply."""
    blocks = [{"type": "text", "text": turn["text"]}]
    cwd = working_directory(messages)
    for index, call in enumerate(turn.get("calls", [])):
        call_id, arguments = f"toolu_{serial:04}_{index}", filled_in(call["input"], cwd)
        blocks.append({"type": "tool_use", "id": call_id, "name": call["name"], "input": arguments})
    return blocks


def events_of(message, usage):
    """The events of a streamed reply, in order."""
    counts = {field: usage.get(name, 0) for name, field in USAGE_FIELDS.items()}
    begun = {**message, "content": [], "stop_reason": None, "usage": {**counts, "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": counts}
    yield {"type": "message_stop"}


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    script = None
    key = None

    def do_POST(self):  # noqa: N802 - the name is the library's
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.split("?")[0]
        sent = self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key is not None and sent != self.key:
            return self.refuse(401, "the key is another one")
        try:
            request = json.loads(body)
        except ValueError:
            return self.refuse(400, "the body is not JSON")
        if path.endswith("/messages/count_tokens"):
            return self.send_json(200, {"input_tokens": len(body) // 4})
        if not path.endswith("/messages"):
            return self.refuse(404, f"nothing at {path}")
        return self.reply(request)

    def do_GET(self):  # noqa: N802 - the name is the library's
        self.refuse(404, f"nothing at {self.path}")

    def do_HEAD(self):  # noqa: N802 - the name is the library's
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def reply(self, request):
        serial = self.script.next_serial()
        number, turn = self.script.turn(request)
        content = blocks_of(turn, request["messages"], serial)
        message = {
            "id": f"msg_{serial:04}",
            "type": "message",
            "role": "assistant",
            "model": request.get("model"),
            "content": content,
            "stop_reason": "tool_use" if content[-1]["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
        }
        if request.get("stream"):
            self.stream(events_of(message, turn["usage"]))
        else:
            counts = {field: turn["usage"].get(name, 0) for name, field in USAGE_FIELDS.items()}
            self.send_json(200, {**message, "usage": counts})
        served = {name: turn["usage"].get(name, 0) for name in USAGE_FIELDS}
        self.script.record(serial=serial, path=self.path, model=request.get("model"), turn=number, served=served)

    def stream(self, events):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()
        self.close_connection = True

    def refuse(self, status, message):
        kinds = {401: "authentication_error", 404: "not_found_error"}
        kind = kinds.get(status, "invalid_request_error")
        self.send_json(status, {"type": "error", "error": {"type": kind, "message": message}})
        self.script.record(path=self.path, status=status, served=None)

    def send_json(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """The log file tells it all."""


def main():
    parser = argparse.ArgumentParser(description="A scripted model provider on 127.0.0.1.")
    parser.add_argument("--script", required=True, help="JSON file with the turns to play")
    parser.add_argument("--log", required=True, help="file that gets one JSON line per answer")
    parser.add_argument("--port-file", required=True, help="file that gets the port once the server listens")
    parser.add_argument("--key-env", help="variable with the key that requests must bear; any will do without")
    options = parser.parse_args()
    if options.key_env:
        Handler.key = os.environ[options.key_env]
    try:
        Handler.script = Script(options.script, options.log)
    except (OSError, ValueError, KeyError) as error:
        print(f"provider: cannot use the script or the log: {error}", file=sys.stderr)
        return 2
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(options.port_file, "w", encoding="utf-8") as file:
        file.write(f"{server.server_address[1]}\n")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
