"""Benchmark core: SCRAM verifiers, so that no password is ever part of a statement, a log or a process list."""

import base64
import hashlib
import hmac
import secrets

_ITERATIONS = 1
"""Stretching protects guessable passwords. Ours are 192 random bits, and one iteration halves the time to connect."""


def verifier(password: str) -> str:
    """What PostgreSQL stores for `password`, and takes in its place: RFC 5802, section 3; RFC 7677.

    Raises:
        ValueError: for a password outside of ASCII, which would need SASLprep.
    """
    if not password.isascii():
        raise ValueError("a random password is ASCII")
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    stored, server = hashlib.sha256(client).digest(), hmac.digest(salted, b"Server Key", "sha256")
    return f"SCRAM-SHA-256${_ITERATIONS}:{_text(salt)}${_text(stored)}:{_text(server)}"


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
