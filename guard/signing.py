"""Guard: Ed25519 keys and signatures of sealed documents."""

import base64
from binascii import Error as Base64Error
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from benchmark_core.errors import InputError

SCHEME = "ed25519:"


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key, PEM without a passphrase. Raises `InputError`; the message never quotes the file."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError(f"{path}: expected an Ed25519 private key, PEM without a passphrase") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path}: expected an Ed25519 private key")
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key, PEM. Raises `InputError`."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(f"{path}: expected an Ed25519 public key, PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path}: expected an Ed25519 public key")
    return key


def issuer(key: Ed25519PublicKey) -> str:
    """The name of a key: `ed25519:` and its 32 bytes in base64."""
    return SCHEME + base64.b64encode(key.public_bytes_raw()).decode()


def sign(key: Ed25519PrivateKey, text: str) -> str:
    """Base64 signature of a text."""
    return base64.b64encode(key.sign(text.encode())).decode()


def signed_by(name: str, text: str, signature: str) -> bool:
    """Whether `signature` is one of `text` by the key that `name` spells out (see `issuer`)."""
    try:
        raw = base64.b64decode(name.removeprefix(SCHEME), validate=True)
        Ed25519PublicKey.from_public_bytes(raw).verify(base64.b64decode(signature, validate=True), text.encode())
    except (ValueError, Base64Error, InvalidSignature):
        return False
    return name.startswith(SCHEME)
