"""A provider that plays: three interfaces on 127.0.0.1, faults, and a log of what was served to whom."""

import json
import select
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from wires import NOTHING, UNKNOWN, WIRES

RETRY_AFTER = 1
# Longest silence in a case that hangs, in seconds; the client leaves before.
SILENCE = 300


class Log:
    """One entry for each request, in memory and as a line of a file."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")
        self.entries = []
        self.lock = threading.Lock()
        self.serial = 0

    def next_serial(self):
        with self.lock:
            self.serial += 1
            return self.serial

    def add(self, **entry):
        with self.lock:
            self.entries.append(entry)
            self.file.write(json.dumps(entry) + "\n")
            self.file.flush()

    def of(self, cell):
        with self.lock:
            return [entry for entry in self.entries if entry["cell"] == str(cell)]


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    log = None
    plays = None
    key = None
    refuses_strangers = False

    def do_POST(self):  # noqa: N802 - the name is the library's
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.split("?")[0]
        self.serial = self.log.next_serial()
        # What comes here has passed the gateway: the key is in its header, and nowhere else.
        bears_key = self.key in (self.headers.get("x-api-key"), self.headers.get("authorization", "")[len("Bearer ") :])
        leaks_key = self.key.encode() in body or self.key in self.path
        self.entry = {"serial": self.serial, "cell": "None", "path": path, "key": bears_key, "leak": leaks_key}
        self.entry["env"] = b"HOME=" in body
        wire = next((wire for wire in WIRES if path.endswith(wire.path)), None)
        if self.refuses_strangers and not bears_key:
            return self.refuse(wire or WIRES[0], 401, "the key is another one")
        if wire is None:
            return self.refuse(WIRES[0], 404, f"nothing at {path}")
        request = json.loads(body)
        try:
            cell, turn = self.plays.next(wire.steps(request), wire.tools(request))
        except LookupError as error:
            return self.refuse(wire, 400, str(error))
        self.entry.update(cell=str(cell), api=wire.api, model=request.get("model"))
        return self.play(wire, request, turn)

    def do_GET(self):  # noqa: N802 - the name is the library's
        self.send_json(404, WIRES[0].error(404, f"nothing at {self.path}"))

    def do_HEAD(self):  # noqa: N802 - the name is the library's
        self.send_json(200, {})

    def play(self, wire, request, turn):
        fault = turn.get("fault")
        if fault == "401":
            return self.refuse(wire, 401, "invalid x-api-key: 401 Unauthorized")
        if fault == "429":
            return self.refuse(wire, 429, "too many requests", ("retry-after", str(RETRY_AFTER)))
        if fault == "hang":
            self.hang()
            return self.served(None, UNKNOWN, "hung")
        reply = wire.reply(request, turn, self.serial)
        streams = bool(request.get("stream"))
        if fault == "cut":
            told = wire.told(turn["usage"], whole=False) if streams else UNKNOWN
            # On record first: an agent may ask again, and the run end, before this line is reached otherwise.
            self.served(200, told, "cut")
            return self.cut(list(wire.events(reply)) if streams else reply)
        self.served(200, wire.told(turn["usage"], whole=True), "complete")
        return self.stream(wire.events(reply)) if streams else self.send_json(200, reply)

    def served(self, status, told, outcome):
        self.log.add(**self.entry, status=status, served=told, outcome=outcome)

    def refuse(self, wire, status, message, *headers):
        self.served(status, NOTHING, "refused")
        self.send_json(status, wire.error(status, message), *headers)

    def hang(self):
        """Says nothing until the client has gone."""
        self.connection.settimeout(SILENCE)
        ready, _, _ = select.select([self.connection], [], [], SILENCE)
        if ready:
            self.connection.recv(1, socket.MSG_PEEK)
        self.close_connection = True

    def begin_stream(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def send_event(self, event):
        data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def stream(self, events):
        self.begin_stream()
        for event in events:
            self.send_event(event)
        self.wfile.write(b"0\r\n\r\n")

    def cut(self, answer):
        """A half of the answer, then an end in the middle."""
        if isinstance(answer, list):
            self.begin_stream()
            for event in answer[: len(answer) // 2]:
                self.send_event(event)
        else:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()
        # With this the connection is reset rather than ended.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def send_json(self, status, value, *headers):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, text in headers:
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """The log tells it all."""


class Server(ThreadingHTTPServer):
    """Many clients come at once, and some of them go in the middle."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """A client that has gone is no error of the provider."""


def start(plays, log, key, refuses_strangers=False):
    """Starts it on a free port and returns its address. `key` is what requests must bear; those without it are refused, or
    only noted."""
    Handler.plays, Handler.log, Handler.key, Handler.refuses_strangers = plays, log, key, refuses_strangers
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"
