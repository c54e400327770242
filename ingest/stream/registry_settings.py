"""A registry's ``config`` and ``headers``, named as for Confluent's Java client, as settings of its Python client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ingest.errors import SpecProblem
from ingest.spec.formats import Registry
from ingest.stream.properties import MASK, PATH, resolved

DECODER_PATH: Final = PATH.replace("consumerProperties", "inputFormat")
REQUEST_S: Final = 5.0
"""How long one question may take; it is asked beside the reading thread."""
_PREFIX: Final = "schema.registry."
_PASSED: Final = (
    "basic.auth.user.info",
    "bearer.auth.identity.pool.id",
    "bearer.auth.logical.cluster",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
_IGNORED: Final = ("ssl.endpoint.identification.algorithm", "ssl.protocol", "ssl.truststore.password")
_STORES: Final = ("truststore", "keystore")


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """``config`` and ``headers`` hold secrets in clear: never log them."""

    config: dict[str, Any]
    headers: dict[str, str]
    problems: tuple[SpecProblem, ...] = ()
    warnings: tuple[str, ...] = ()


def registry_settings(
    registry: Registry, environ: Mapping[str, str] | None, path: str = DECODER_PATH
) -> RegistrySettings:
    """Maps and checks them. Without ``environ`` what comes from the environment is judged by its shape only."""
    given, problems = resolved(registry.config, environ, f"{path}.config")
    headers, more = resolved(registry.headers, environ, f"{path}.headers")
    work = _Work(f"{path}.config", [*problems, *more], [])
    plain = {name.removeprefix(_PREFIX): value for name, value in given.items()}
    config = {"url": ",".join(registry.urls), "timeout": REQUEST_S, "max.retries": 0}
    for name, value in plain.items():
        config.update(work.one(name, value))
    config.update(work.stores(plain))
    for name, text in headers.items():
        if not isinstance(text, str):
            cure = "write the header's value as text"
            work.problems.append(SpecProblem(f"{path}.headers['{name}']", MASK, "is not text", cure))
    texts = {name: str(value) for name, value in headers.items()}
    return RegistrySettings(config, texts, tuple(work.problems), tuple(work.warnings))


@dataclass(slots=True)
class _Work:
    path: str
    problems: list[SpecProblem]
    warnings: list[str]

    def problem(self, name: str, value: object, rule: str, cure: str) -> None:
        self.problems.append(SpecProblem(f"{self.path}['{name}']", value, rule, cure))

    def one(self, name: str, value: object) -> dict[str, Any]:
        """What one entry sets."""
        if name == "basic.auth.credentials.source":
            if value not in ("URL", "USER_INFO"):
                self.problem(name, value, "is not known here", "use USER_INFO or URL")
            return {}
        if name == "bearer.auth.credentials.source":
            if value != "STATIC_TOKEN":
                self.problem(name, value, "is not known here", "use STATIC_TOKEN with bearer.auth.token")
            return {name: value}
        if name in _PASSED:
            if not isinstance(value, str):
                self.problem(name, MASK, "is not text", "write it as a JSON string")
            elif name == "basic.auth.user.info" and ":" not in value:
                self.problem(name, MASK, "is no user and password", "write user:password")
            return {name: value}
        if name in _IGNORED:
            self.warnings.append(f"{self.path}['{name}'] has no effect here: it configures Java classes")
        elif not name.startswith(tuple(f"ssl.{store}." for store in _STORES)):
            known = ", ".join(("basic.auth.credentials.source", *_PASSED))
            # A misspelt name may well stand before a secret.
            self.problem(name, MASK, "is not a setting of a registry that is known here", f"use one of {known}")
        return {}

    def stores(self, plain: Mapping[str, object]) -> dict[str, Any]:
        """Key and trust stores in PEM; Java's own are refused with the way to PEM."""
        found: dict[str, Any] = {}
        for store in _STORES:
            where = plain.get(f"ssl.{store}.location")
            if where is None:
                continue
            kind = str(plain.get(f"ssl.{store}.type", "JKS")).upper()
            if kind != "PEM":
                cure = f"export it with keytool and openssl to PEM and set ssl.{store}.type=PEM"
                self.problem(f"ssl.{store}.location", where, f"{kind} {store}s cannot be read here", cure)
            elif store == "truststore":
                found["ssl.ca.location"] = where
            else:
                found |= {"ssl.certificate.location": where, "ssl.key.location": where}
        return found
