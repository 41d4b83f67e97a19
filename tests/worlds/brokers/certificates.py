"""Certificates for one test run, made by the openssl command: an authority, and certificates that it signs."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.worlds.debian import needs_debian

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")
DAYS = "2"


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM files: the certificate, its key without a password, and both in one as Kafka reads them."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """A certificate authority with its files in a directory."""

    def __init__(self, directory: Path, name: str) -> None:
        needs_debian("openssl", program="openssl")
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.certificate = directory / "ca.pem"
        self._key = directory / "ca.key"
        extensions = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
        subject = ("-subj", f"/CN={name}", "-days", DAYS)
        _openssl("req", "-x509", *KEY, *subject, *extensions, "-keyout", self._key, "-out", self.certificate)

    def sign(self, name: str, alternative: str = "") -> Certificate:
        """Sign a certificate of this name; alternative: its hosts, such as IP:127.0.0.1,DNS:localhost"""
        made = Certificate(*(self._directory / f"{name}.{ending}" for ending in ("pem", "key", "both")))
        request, extensions = self._directory / f"{name}.csr", self._directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternative}\n" if alternative else "", "utf-8")
        _openssl("req", *KEY, "-subj", f"/CN={name}", "-keyout", made.key, "-out", request)
        signed_by = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-days", DAYS)
        _openssl("x509", "-req", "-in", request, *signed_by, "-extfile", extensions, "-out", made.certificate)
        made.both.write_bytes(made.key.read_bytes() + made.certificate.read_bytes())
        return made


def locked(key: Path, password: str) -> Path:
    """The same key, protected by a password."""
    copy = key.with_suffix(".locked")
    _openssl("pkcs8", "-topk8", "-in", key, "-passout", f"pass:{password}", "-out", copy)
    return copy


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL)
