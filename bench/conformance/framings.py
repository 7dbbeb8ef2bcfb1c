"""Responses as they are written on the wire, well formed and not.

Each is a name, the bytes, and what follows them: KEEP (the connection stays open) or CLOSE. METHOD is that of the
request, if it is not GET. BYTEWISE writes one byte at a time."""

from dataclasses import dataclass

KEEP, CLOSE = False, True


@dataclass
class Framing:
    name: str
    head: bytes
    closes: bool = KEEP
    method: str = "GET"
    bytewise: bool = False
    # Answers when the request has only begun.
    early: bool = False


def sized(line=b"HTTP/1.1 200 OK", fields=b"", body=b"hello", end=b"\r\n"):
    return line + end + fields + b"Content-Length: %d" % len(body) + end + end + body


def chunked(body, fields=b"", line=b"HTTP/1.1 200 OK"):
    return line + b"\r\n" + fields + b"Transfer-Encoding: chunked\r\n\r\n" + body


def of_length(value, body=b"hello"):
    return b"HTTP/1.1 200 OK\r\nContent-Length: " + value + b"\r\n\r\n" + body


PLAIN_CHUNKS = b"5\r\nhello\r\n0\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"

FRAMINGS = [
    # Status lines.
    Framing("plain", sized()),
    Framing("no reason", sized(b"HTTP/1.1 200 ")),
    Framing("no reason and no space", sized(b"HTTP/1.1 200")),
    Framing("a reason of 1000 bytes", sized(b"HTTP/1.1 200 " + b"x" * 1000)),
    Framing("a reason that is not ASCII", sized(b"HTTP/1.1 200 \xe9")),
    Framing("HTTP/1.0, closed", sized(b"HTTP/1.0 200 OK"), CLOSE),
    Framing("HTTP/1.0 with keep-alive", sized(b"HTTP/1.0 200 OK", b"Connection: keep-alive\r\n")),
    Framing("HTTP/1.2", sized(b"HTTP/1.2 200 OK")),
    Framing("HTTP/2.0 as text", sized(b"HTTP/2.0 200 OK")),
    Framing("http in lower case", sized(b"http/1.1 200 OK")),
    Framing("status 299", sized(b"HTTP/1.1 299 Odd")),
    Framing("status 600", sized(b"HTTP/1.1 600 Odd")),
    Framing("status 999", sized(b"HTTP/1.1 999 Denied")),
    Framing("status 099", sized(b"HTTP/1.1 099 Odd")),
    Framing("status of two digits", sized(b"HTTP/1.1 20 OK")),
    Framing("status of four digits", sized(b"HTTP/1.1 2000 OK")),
    Framing("an empty line before", b"\r\n" + sized()),
    Framing("two spaces behind the version", sized(b"HTTP/1.1  200 OK")),
    Framing("a tab behind the version", sized(b"HTTP/1.1\t200 OK")),
    Framing("not HTTP (a banner of SSH)", b"SSH-2.0-OpenSSH_9.2\r\n", CLOSE),
    # Line ends.
    Framing("LF line ends", sized(end=b"\n")),
    Framing("LF behind the status line only", sized().replace(b"OK\r\n", b"OK\n")),
    Framing("CR line ends", sized(end=b"\r"), CLOSE),
    # Fields.
    Framing("no fields, closed", b"HTTP/1.1 200 OK\r\n\r\nhello", CLOSE),
    Framing("a folded line (space)", sized(fields=b"X-A: a\r\n b\r\n")),
    Framing("a folded line (tab)", sized(fields=b"X-A: a\r\n\tb\r\n")),
    Framing("a folded first field", sized(fields=b" X-A: a\r\n")),
    Framing("200 fields", sized(fields=b"".join(b"X-%d: a\r\n" % n for n in range(200)))),
    Framing("4000 fields", sized(fields=b"".join(b"X-%d: a\r\n" % n for n in range(4000)))),
    Framing("a head of 70 KB", sized(fields=b"X-A: " + b"a" * 70_000 + b"\r\n")),
    Framing("a head of 250 KB", sized(fields=(b"X-A: " + b"a" * 50_000 + b"\r\n") * 5)),
    Framing("a space before the colon", sized(fields=b"X-A : a\r\n")),
    Framing("a line without a colon", sized(fields=b"nothing\r\n")),
    Framing("an empty name", sized(fields=b": a\r\n")),
    Framing("an empty value", sized(fields=b"X-A:\r\n")),
    Framing("no space behind the colon", sized(fields=b"X-A:a\r\n")),
    Framing("a value that is not ASCII", sized(fields=b"X-A: \xc3\xa9\r\n")),
    Framing("NUL in a value", sized(fields=b"X-A: a\0b\r\n")),
    Framing("CR in a value", sized(fields=b"X-A: a\rb\r\n")),
    # Lengths.
    Framing("a length with zeros in front", of_length(b"0005")),
    Framing("a length with a plus", of_length(b"+5")),
    Framing("a negative length", of_length(b"-5"), CLOSE),
    Framing("a length beyond 64 bits", of_length(b"99999999999999999999"), CLOSE),
    Framing("a length that is a word", of_length(b"five"), CLOSE),
    Framing("the same length twice", sized(fields=b"Content-Length: 5\r\n")),
    Framing("the same length in a list", of_length(b"5, 5")),
    Framing("two lengths", sized(fields=b"Content-Length: 6\r\n"), CLOSE),
    Framing("no length, closed", b"HTTP/1.1 200 OK\r\nX-A: a\r\n\r\nhello", CLOSE),
    Framing("less than the length, closed", of_length(b"9"), CLOSE),
    Framing("more than the length", of_length(b"5", b"hello, world")),
    Framing("no body", of_length(b"0", b"")),
    # Chunks.
    Framing("chunks", chunked(PLAIN_CHUNKS)),
    Framing("Chunked in upper case", chunked(PLAIN_CHUNKS).replace(b"chunked", b"Chunked")),
    Framing("chunks with HTTP/1.0", chunked(PLAIN_CHUNKS, line=b"HTTP/1.0 200 OK"), CLOSE),
    Framing("a size in upper-case digits", chunked(b"A\r\nhelloworld\r\n0\r\n\r\n")),
    Framing("a size with zeros in front", chunked(b"0005\r\nhello\r\n000\r\n\r\n")),
    Framing("a size with a space behind", chunked(b"5 \r\nhello\r\n0\r\n\r\n")),
    Framing("a chunk extension", chunked(b"5;a=b\r\nhello\r\n0\r\n\r\n")),
    Framing("a quoted chunk extension", chunked(b'5;a="b;c"\r\nhello\r\n0;x\r\n\r\n')),
    Framing("trailer fields", chunked(b"5\r\nhello\r\n0\r\nX-A: a\r\n\r\n")),
    Framing("LF line ends of chunks", chunked(b"5\nhello\n0\n\n")),
    Framing("no line end behind a chunk", chunked(b"5\r\nhello0\r\n\r\n"), CLOSE),
    Framing("no size", chunked(b"\r\nhello\r\n0\r\n\r\n"), CLOSE),
    Framing("a size beyond 64 bits", chunked(b"fffffffffffffffff\r\nhello"), CLOSE),
    Framing("no last chunk, closed", chunked(b"5\r\nhello\r\n"), CLOSE),
    Framing("no empty line at the end, closed", chunked(b"5\r\nhello\r\n0\r\n"), CLOSE),
    Framing("chunks and a length", chunked(PLAIN_CHUNKS, b"Content-Length: 3\r\n")),
    Framing("gzip, chunked", chunked(PLAIN_CHUNKS).replace(b"chunked", b"gzip, chunked")),
    Framing("identity", sized(fields=b"Transfer-Encoding: identity\r\n")),
    Framing("an unknown coding, closed", sized(fields=b"Transfer-Encoding: odd\r\n"), CLOSE),
    # Responses without a body, and before the final one.
    Framing("204", b"HTTP/1.1 204 No Content\r\n\r\n"),
    Framing("304 with a length", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
    Framing("100 before", b"HTTP/1.1 100 Continue\r\n\r\n" + sized()),
    Framing("103 before, ten times", INTERIM * 10 + sized()),
    Framing("101, not asked for", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: odd\r\n\r\n", CLOSE),
    Framing("HEAD with a length", of_length(b"5", b""), method="HEAD"),
    Framing("HEAD with chunks", chunked(b""), method="HEAD"),
    # Connections.
    Framing("Connection: close, closed", sized(fields=b"Connection: close\r\n"), CLOSE),
    Framing("Connection: close, left open", sized(fields=b"Connection: close\r\n")),
    Framing("Connection: Keep-Alive, Foo", sized(fields=b"Connection: Keep-Alive, Foo\r\n")),
    Framing("closed without a word", sized(), CLOSE),
    Framing("nothing, closed", b"", CLOSE),
    Framing("one byte at a time", sized(), bytewise=True),
    Framing("before the whole request", sized(b"HTTP/1.1 413 Too Large", b"Connection: close\r\n"), CLOSE, "POST", early=True),
]
