"""The certificate authorities that the machine trusts, as a file that Java reads.

A Java from a wheel brings its own list of authorities. Where a site's network re-signs TLS, Python and pip trust the
site's authority through the system's bundle, and that Java would not: so it gets the same bundle when it is installed.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import struct
from pathlib import Path

_USUAL_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def system_bundle() -> Path | None:
    """The PEM file of authorities that programs on this machine use: SSL_CERT_FILE, OpenSSL's default, or a usual
    place.
    """
    candidates = (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile, *_USUAL_BUNDLES)
    return next((Path(c) for c in candidates if c and Path(c).is_file()), None)


def write_trust_store(path: Path, bundle: Path | None = None) -> bool:
    """Writes the authorities of `bundle` (the system's) to `path` for Java; False if there is no bundle, and then
    nothing is written.
    """
    bundle = bundle or system_bundle()
    if bundle is None:
        return False
    path.write_bytes(trust_store(read_certificates(bundle.read_text(encoding="utf-8", errors="replace"))))
    return True


def read_certificates(pem: str) -> list[bytes]:
    """Each certificate of a PEM bundle in DER, once."""
    blocks = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", pem, flags=re.DOTALL)
    return list(dict.fromkeys(ssl.PEM_cert_to_DER_cert(block) for block in blocks))


def trust_store(certificates: list[bytes]) -> bytes:
    """A Java key store (JKS, version 2) that holds these certificates as trusted; its password is Java's usual one.

    >>> trust_store([])[:12].hex()
    'feedfeed0000000200000000'
    """
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, der in enumerate(certificates):
        trusted = struct.pack(">I", 2) + _utf(f"authority-{number}") + struct.pack(">q", 0)
        body += trusted + _utf("X.509") + struct.pack(">I", len(der)) + der
    # The format ends in a keyed SHA-1 that detects damage; it protects nothing, the password is public.
    return (
        body + hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False).digest()
    )


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")
