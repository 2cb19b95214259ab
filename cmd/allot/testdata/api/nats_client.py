"""A client of the NATS port that is made from asyncapi.json: one method a command or query."""
import json
import socket
import uuid


class Client:
    def __init__(self, address, document):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.lines = self.socket.makefile("rb")
        self.lines.readline()  # INFO
        self.inbox = "_INBOX." + uuid.uuid4().hex
        self.send(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB %s 1\r\n' % self.inbox.encode())
        for name, operation in document["operations"].items():
            if operation["action"] == "receive":
                channel = document["channels"][operation["channel"]["$ref"].split("/")[-1]]
                headers = channel["messages"]["request"]["headers"]["$ref"].split("/")[-1]
                setattr(self, name, self._call(channel["address"], headers == "CommandHeaders"))

    def send(self, data):
        self.socket.sendall(data)

    def _call(self, subject, command):
        def call(**body):
            headers = "NATS/1.0\r\nContent-Type: application/json\r\n"
            if command:
                headers += "Allot-Command-Id: %s\r\n" % uuid.uuid4()
            headers, data = (headers + "\r\n").encode(), json.dumps(body).encode()
            self.send(b"HPUB %s %s %d %d\r\n%s%s\r\n" % (
                subject.encode(), self.inbox.encode(), len(headers), len(headers) + len(data), headers, data))
            return self.receive()
        return call

    def receive(self):
        while True:
            words = self.lines.readline().split()
            if words[0] == b"PING":
                self.send(b"PONG\r\n")
            elif words[0] in (b"MSG", b"HMSG"):
                body = self.lines.read(int(words[-1]) + 2)[:-2]
                return json.loads(body[int(words[-2]) if words[0] == b"HMSG" else 0:])
            else:
                raise ConnectionError(words)
