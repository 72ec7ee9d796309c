"""An issuer of tokens on this machine: OpenID Connect's discovery, its keys, and tokens signed with them."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "stampede"


class LocalIssuer:
    """asked: paths that were asked for.    shown: keys that it tells of, by kid.    extra: entries beside them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.authorization: list[str | None] = []
        self.private: dict[str, Any] = {}
        self.shown: list[str] = []
        self.extra: list[dict[str, Any]] = []
        self.said_issuer = ""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                issuer.authorization.append(self.headers.get("Authorization"))
                answer = issuer.answer(self.path)
                body = json.dumps(answer).encode()
                self.send_response(200 if answer is not None else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> LocalIssuer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, path: str) -> Any:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.said_issuer or self.url, "jwks_uri": f"{self.url}/keys"}
        return {"keys": [*map(self.public, self.shown), *self.extra]} if path == "/keys" else None

    def key(self, kid: str, kind: str = "EC", shown: bool = True) -> None:
        """A new one."""
        self.private[kid] = ec.generate_private_key(ec.SECP256R1()) if kind == "EC" else rsa.generate_private_key(
            65537, 2048
        )  # fmt: skip
        if shown:
            self.shown.append(kid)

    def public(self, kid: str) -> dict[str, Any]:
        key = self.private[kid].public_key()
        algorithm = ECAlgorithm if isinstance(key, ec.EllipticCurvePublicKey) else RSAAlgorithm
        return {**algorithm.to_jwk(key, as_dict=True), "kid": kid, "use": "sig"}

    def pem(self, kid: str) -> bytes:
        return self.private[kid].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def token(self, kid: str, user: str, lasts_s: float = 60, algorithm: str = "", **claims: Any) -> str:
        key = self.private[kid]
        wanted = algorithm or ("ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "RS256")
        said = {"iss": self.url, "aud": AUDIENCE, "sub": user, "exp": time.time() + lasts_s, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, key, wanted, headers={"kid": kid})
