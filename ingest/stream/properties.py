"""Druid's `consumerProperties`, Java client names and all, as settings of librdkafka.

Names are mapped, ignored with a warning, overridden with a warning or refused with a cure; all
faults of one map are reported together. Values from the environment (Druid's providers) are
resolved only where the caller hands an environment in: the process that uses the client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from ingest.errors import SpecProblem
from ingest.stream.property_names import (
    DEFAULTS,
    IGNORED,
    INTEGERS,
    OVERRIDDEN,
    PASSED,
    READING,
    REFUSED,
    RENAMED,
    WORDS,
)

PATH = "spec.ioConfig.consumerProperties"
PROVIDER = "druid.dynamic.config.provider"
MASK = "******"

Setting = str | int | bool

_SECRET = re.compile(r"password|jaas|secret|\.key(\.pem)?$|token", re.IGNORECASE)
_LOGIN = re.compile(r"^\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*$", re.DOTALL)
_OPTION = re.compile(r'([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|([^\s;"\']+))')
_SERVER = re.compile(r"^(?:[A-Z_]+://)?(\[[0-9a-fA-F:]+\]|[^\s:/,]+)(?::(\d{1,5}))?$")


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """The outcome of `translate`. ``config`` holds secrets in clear: never log it, use `masked`."""

    config: dict[str, Setting]
    warnings: tuple[str, ...] = ()
    problems: tuple[SpecProblem, ...] = ()

    def masked(self) -> dict[str, Setting]:
        """The settings with every secret's value hidden, for logs and answers."""
        return {name: MASK if _SECRET.search(name) else value for name, value in self.config.items()}


def masked(properties: Mapping[str, object]) -> dict[str, object]:
    """`consumerProperties` as posted, with every secret's value hidden; references to the environment stay."""
    return {name: _masked(name, value) for name, value in properties.items()}


def _masked(name: str, value: object) -> object:
    if isinstance(value, Mapping):
        kind = value.get("type")
        if kind == "environment":
            return dict(value)
        return {key: inner if key == "type" else MASK for key, inner in value.items()}
    return MASK if _SECRET.search(name) else value


def translate(
    properties: Mapping[str, object], environ: Mapping[str, str] | None = None, path: str = PATH
) -> ClientProperties:
    """Checks and maps one `consumerProperties` object.

    Without ``environ`` references to the environment are checked for shape only and their
    properties are left out of ``config``: that is how a spec is judged where it is posted.
    """
    work = _Translation(path, environ)
    flat = work.resolve(properties)
    for name, value in flat.items():
        work.take(name, value)
    work.login(flat)
    work.stores(flat)
    if "bootstrap.servers" not in properties and "bootstrap.servers" not in work.seen:
        work.problem("bootstrap.servers", None, "is required", 'give "host:port", several separated by commas')
    return ClientProperties({**DEFAULTS, **work.config}, tuple(work.warnings), tuple(work.problems))


def resolved(
    properties: Mapping[str, object], environ: Mapping[str, str] | None, path: str
) -> tuple[dict[str, object], list[SpecProblem]]:
    """Properties of another client with Druid's providers replaced by what they bring; see `translate`."""
    work = _Translation(path, environ)
    return work.resolve(properties), work.problems


def asking(config: Mapping[str, Setting]) -> dict[str, Setting]:
    """The settings of a client that only asks for topics and offsets: those of a reader are left out."""
    return {name: value for name, value in config.items() if not name.startswith(READING)}


@dataclass(slots=True)
class _Translation:
    path: str
    environ: Mapping[str, str] | None
    config: dict[str, Setting] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    problems: list[SpecProblem] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def at(self, name: str) -> str:
        return f"{self.path}['{name}']"

    def problem(self, name: str, value: object, rule: str, cure: str) -> None:
        shown = MASK if _SECRET.search(name) and value is not None else value
        self.problems.append(SpecProblem(self.at(name), shown, rule, cure))

    def warn(self, name: str, text: str) -> None:
        self.warnings.append(f"{self.at(name)} {text}")

    # ------------------------------------------------------------ providers

    def resolve(self, properties: Mapping[str, object]) -> dict[str, object]:
        """Plain values only; what comes from an environment that was not handed in is left out."""
        flat: dict[str, object] = {}
        for name, value in properties.items():
            if name == PROVIDER:
                flat.update(self._provided(value))
            elif isinstance(value, Mapping):
                found = self._password(name, value)
                if found is not None:
                    flat[name] = found
            else:
                flat[name] = value
        return flat

    def _provided(self, value: object) -> dict[str, object]:
        kind = value.get("type") if isinstance(value, Mapping) else None
        if isinstance(value, Mapping) and kind == "mapString" and isinstance(value.get("config"), Mapping):
            return {str(k): v for k, v in value["config"].items()}
        if isinstance(value, Mapping) and kind == "environment" and isinstance(value.get("variables"), Mapping):
            found = {str(name): self._variable(PROVIDER, variable) for name, variable in value["variables"].items()}
            self.seen |= found.keys()
            return {name: text for name, text in found.items() if text is not None}
        cure = 'use {"type": "environment", "variables": {"sasl.jaas.config": "NAME"}} or type "mapString"'
        self.problem(PROVIDER, kind, "is not a provider that is known here", cure)
        return {}

    def _password(self, name: str, value: Mapping[str, object]) -> str | None:
        kind = value.get("type")
        if kind == "environment":
            self.seen.add(name)
            return self._variable(name, value.get("variable"))
        if kind == "default" and isinstance(value.get("password"), str):
            return str(value["password"])
        cure = 'use {"type": "environment", "variable": "NAME"} or {"type": "default", "password": "..."}'
        self.problem(name, kind, "is not a password provider that is known here", cure)
        return None

    def _variable(self, name: str, variable: object) -> str | None:
        if not isinstance(variable, str) or not variable:
            self.problem(name, None, "names no environment variable", "give the variable's name as text")
            return None
        if self.environ is None:
            return None
        if variable not in self.environ:
            cure = "set it where the tasks and the overlord run"
            self.problem(name, variable, "names an environment variable that is not set", cure)
            return None
        return self.environ[variable]

    # ------------------------------------------------------------ single names

    def take(self, name: str, value: object) -> None:
        """One property with a plain value."""
        self.seen.add(name)
        if name in REFUSED:
            self.problem(name, value, *REFUSED[name])
        elif name in OVERRIDDEN:
            if str(value).lower() not in OVERRIDDEN[name][0]:
                self.warn(name, OVERRIDDEN[name][1])
        elif name in IGNORED:
            self.warn(name, IGNORED[name])
        elif name in _SPECIAL:
            _SPECIAL[name](self, name, value)
        elif name in RENAMED or name in PASSED:
            self._typed(RENAMED.get(name, name), name, value)
        elif name not in _TOGETHER:
            self._unknown(name, value)

    def _unknown(self, name: str, value: object) -> None:
        known = [*PASSED, *RENAMED, *IGNORED, *OVERRIDDEN, *_SPECIAL, *_TOGETHER]
        near = get_close_matches(name, known, 1)
        cure = f"did you mean {near[0]!r}?" if near else "remove it, or use the name of Kafka's Java consumer"
        # A misspelt name may well stand before a secret.
        self.problem(name, None if value is None else MASK, "is not a consumer property that is known here", cure)

    def _typed(self, target: str, name: str, value: object) -> None:
        if target in INTEGERS:
            low, high = INTEGERS[target]
            number = _integer(value)
            if number is None or not low <= number <= high:
                self.problem(name, value, f"is not a whole number from {low} to {high}", "correct the number")
            else:
                self.config[target] = number
        elif target in WORDS:
            word = str(value).lower() if isinstance(value, bool) else str(value)
            found = next((w for w in WORDS[target] if w.lower() == word.lower()), None)
            if found is None:
                self.problem(name, value, "is not a value that is known here", "use one of " + ", ".join(WORDS[target]))
            else:
                self.config[target] = found
        elif isinstance(value, str):
            self.config[target] = value
        else:
            self.problem(name, value, "is not text", "write it as a JSON string")

    def servers(self, name: str, value: object) -> None:
        """`bootstrap.servers`: host:port, several separated by commas."""
        cure = 'give "host:port", several separated by commas'
        listed = [part.strip() for part in value.split(",")] if isinstance(value, str) else []
        if not any(listed):
            self.problem(name, value, "names no broker", cure)
            return
        for part in filter(None, listed):
            found = _SERVER.match(part)
            if found is None or not 0 < int(found.group(2) or 9092) < 65536:
                self.problem(name, part, "is not host:port", cure)
        self.config[name] = ",".join(filter(None, listed))

    def mechanism(self, name: str, value: object) -> None:
        """`sasl.mechanism`; Kerberos needs a library that the client's wheel does not carry."""
        if str(value).upper() == "GSSAPI":
            cure = "use SCRAM-SHA-512, PLAIN or OAUTHBEARER, or a TLS client certificate"
            self.problem(name, value, "Kerberos is not built into the client", cure)
        else:
            self._typed("sasl.mechanism", name, value)

    def endpoint(self, name: str, value: object) -> None:
        """Java's empty text means no check of the host name; librdkafka says none."""
        self._typed(name, name, value or "none")

    # ------------------------------------------------------------ names that belong together

    def login(self, flat: Mapping[str, object]) -> None:
        """`sasl.jaas.config`: user and password of the PLAIN and SCRAM login modules."""
        text = flat.get("sasl.jaas.config")
        if text is None:
            return
        found = _LOGIN.match(text) if isinstance(text, str) else None
        module = found.group(1).rsplit(".", 1)[-1] if found else None
        if found is None or module not in ("PlainLoginModule", "ScramLoginModule"):
            cure = "use Kafka's PlainLoginModule or ScramLoginModule with username and password"
            self.problem("sasl.jaas.config", module, "is not a PLAIN or SCRAM login", cure)
            return
        options = {key: next(filter(None, rest), "") for key, *rest in _OPTION.findall(found.group(2))}
        for option in ("username", "password"):
            if option in options:
                self.config.setdefault(f"sasl.{option}", re.sub(r"\\(.)", r"\1", options[option]))
            else:
                self.problem("sasl.jaas.config", None, f"holds no {option}", f'add {option}="..." before the semicolon')
        if "sasl.mechanism" not in self.config and module == "PlainLoginModule":
            self.config["sasl.mechanism"] = "PLAIN"

    def stores(self, flat: Mapping[str, object]) -> None:
        """Key and trust stores: PEM, and PKCS12 for the key store; Java's JKS is refused with its cure."""
        for store in ("truststore", "keystore"):
            kind = str(flat.get(f"ssl.{store}.type", "JKS")).upper()
            where = flat.get(f"ssl.{store}.location")
            if where is not None:
                self._store(store, kind, where)
        if "ssl.keystore.password" in flat and self.config.get("ssl.keystore.location"):
            self._typed("ssl.keystore.password", "ssl.keystore.password", flat["ssl.keystore.password"])

    def _store(self, store: str, kind: str, where: object) -> None:
        name = f"ssl.{store}.location"
        if kind == "PEM" and store == "truststore":
            self._typed("ssl.ca.location", name, where)
        elif kind == "PEM":
            self._typed("ssl.certificate.location", name, where)
            self._typed("ssl.key.location", name, where)
        elif kind == "PKCS12" and store == "keystore":
            self._typed("ssl.keystore.location", name, where)
        else:
            target = "ssl.ca.location" if store == "truststore" else "ssl.certificate.location and ssl.key.location"
            cure = f"export it with keytool and openssl to PEM and set ssl.{store}.type=PEM, or {target}"
            self.problem(name, where, f"{kind} {store}s are Java's own and cannot be read here", cure)


def _integer(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,18}", value.strip()):
        return int(value)
    return None


_SPECIAL: dict[str, Callable[[_Translation, str, object], None]] = {
    "bootstrap.servers": _Translation.servers,
    "sasl.mechanism": _Translation.mechanism,
    "sasl.mechanisms": _Translation.mechanism,
    "ssl.endpoint.identification.algorithm": _Translation.endpoint,
}
_TOGETHER = frozenset(
    {"sasl.jaas.config", "ssl.keystore.password", "ssl.truststore.password"}
    | {f"ssl.{store}.{what}" for store in ("keystore", "truststore") for what in ("location", "type")}
)
