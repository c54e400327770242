"""Settings: one YAML file and the environment over it, checked whole, frozen; unknown keys are refused."""

from __future__ import annotations

import difflib
import ipaddress
import os
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from segments.errors import ServiceError

ENV_PREFIX = "SILTSTONE_"
CLIENT_VARIABLES = frozenset({"SILTSTONE_URL"})
"""What the command line's clients read: no settings, but no misspelt ones either."""

DATABASES = ("sqlite", "postgresql", "postgres")
"""Schemes of ``metadata.url``; which drivers they may name is for who opens the database."""

Role = Literal["overlord", "middle-manager", "query", "api"]
ROLES: tuple[Role, ...] = ("overlord", "middle-manager", "query", "api")


class SettingsError(ServiceError):
    """The settings cannot be used; the message lists every fault, a line each."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MetadataSettings(_Section):
    """``url``: empty means SQLite in the data directory, so that one machine needs no server.
    ``auto_migrate``: empty means yes on SQLite (nobody shares it), no elsewhere (an operator decides when)."""

    url: str | None = None
    auto_migrate: bool | None = None

    @field_validator("url")
    @classmethod
    def _of_a_known_database(cls, value: str | None) -> str | None:
        """Told before anything is started; what follows the scheme may hold a password and is not shown."""
        scheme, found, _ = (value or "sqlite://").partition("://")
        if found and scheme.partition("+")[0] in DATABASES:
            return value
        shown = f"{scheme}://..." if found else "..."
        told = "is {shown}; metadata is kept in sqlite:///PATH or postgresql://USER@HOST/NAME"
        raise PydanticCustomError("database", told, {"shown": shown})


class LocalStorage(_Section):
    """``path``: empty means ``segments`` in the data directory."""

    type: Literal["local"] = "local"
    path: Path | None = None


class S3Storage(_Section):
    """Credentials come from boto3's usual chain, never from here. ``prefix`` lets tables of several
    installations share a bucket. ``endpoint_url`` is for S3-protocol servers other than AWS."""

    type: Literal["s3"]
    bucket: str = Field(min_length=3, max_length=63)
    prefix: str = ""
    endpoint_url: str | None = None
    region: str | None = None
    upload_deadline_s: int = Field(default=600, ge=10, le=600)


class HttpSettings(_Section):
    """Loopback and Druid's router port by default, so that Druid's clients find it and nobody else does.
    ``stop_s``: what requests under way have left when the process is told to stop; then they are ended by name."""

    host: str = "127.0.0.1"
    port: int = Field(default=8888, ge=0, le=65535)
    allow_unauthenticated: bool = False
    stop_s: float = Field(default=5, ge=0, le=3_600)


class WorkerSettings(_Section):
    """``capacity``: tasks at once; four suit a small machine. ``bind_host``: where tasks listen; split
    roles need an address that overlords and query nodes reach, ``advertise_host`` if it is another one.
    ``disk_max_bytes``: bound of unpublished rows per task; past it the task pauses and says so.
    ``uploads_max``: files that one publish uploads at once; each holds up to 16 MiB of memory with S3, 1 MiB without.
    ``keep_tasks``: whether tasks read on when the service stops, for the next start to adopt; without
    it they are ended so that the next start restores them, which suits a broker that stops as well."""

    capacity: int = Field(default=4, ge=1, le=1000)
    bind_host: str = "127.0.0.1"
    advertise_host: str | None = None
    disk_max_bytes: int = Field(default=20 * 2**30, ge=64 * 2**20)
    uploads_max: int = Field(default=8, ge=1, le=64)
    keep_tasks: bool = True


class QuarantineSettings(_Section):
    """Bounds, per table, of what is kept of records that could not be read; past them the files that were replayed
    go first, then the oldest. ``max_bytes``: null is no bound. ``max_age_days``: by default age alone removes none."""

    max_bytes: int | None = Field(default=100 * 2**30, ge=2**20)
    max_age_days: float | None = Field(default=None, gt=0)


class OverlordSettings(_Section):
    """``urls``: where middle managers, tasks and query nodes find the overlords; empty means this process.
    ``lease_ms``: a standby takes over when the leader was silent for so long; ten seconds outlast a
    garbage pause and a short stall of the database."""

    urls: tuple[str, ...] = ()
    lease_ms: int = Field(default=10_000, ge=1_000, le=300_000)


class QuerySettings(_Section):
    """``memory_limit_bytes`` bounds the whole memory of one query worker, ``workers`` how many queries run at once,
    ``timeout_ms`` one query (a context's ``timeout`` may lower it). A query over ``long_rows`` stored rows, about a
    second's work, or one that has run for ``long_ms``, leaves one worker to the others; while all are held by such,
    ``spare_workers`` more serve short ones. ``nice`` puts workers behind tasks. ``results_max_bytes`` bounds
    the small answers kept for who asks the same of the same rows again, ``cache_max_bytes`` the local copies of
    segments, ``mirror_max_bytes`` those of live rows, ``live_wait_ms`` the wait for a task's answer;
    ``pace_ms`` is what an answer may take of what tasks need (``query.gathering``).
    ``lookup_roots`` are the folders whose files lookups may read."""

    workers: int = Field(default=2, ge=1, le=64)
    threads: int = Field(default=2, ge=1, le=256)
    memory_limit_bytes: int = Field(default=2 * 2**30, ge=192 * 2**20)
    timeout_ms: int = Field(default=300_000, ge=1)
    long_rows: int = Field(default=20_000_000, ge=1)
    long_ms: int = Field(default=1_000, ge=1)
    spare_workers: int = Field(default=1, ge=0, le=64)
    nice: int = Field(default=5, ge=0, le=19)
    results_max_bytes: int = Field(default=64 * 2**20, ge=0)
    cache_max_bytes: int = Field(default=10 * 2**30, ge=2**20)
    mirror_max_bytes: int = Field(default=4 * 2**30, ge=2**20)
    live_wait_ms: int = Field(default=10_000, ge=0)
    pace_ms: int = Field(default=12, ge=0, le=1_000)
    lookup_roots: tuple[Path, ...] = ()


class JdbcSettings(_Section):
    """Bounds of what JDBC drivers hold: ``connections_max`` in all, ``statements_max`` of one connection,
    ``frame_rows`` rows in one answer. ``idle_s``: a connection silent for so long is closed; BI tools keep
    pools of them. ``results_idle_s``: results nobody fetches from are ended, for they hold a query worker."""

    connections_max: int = Field(default=100, ge=1, le=10_000)
    statements_max: int = Field(default=16, ge=1, le=1_000)
    frame_rows: int = Field(default=5_000, ge=1, le=100_000)
    idle_s: int = Field(default=300, ge=1)
    results_idle_s: int = Field(default=60, ge=1)


class LogSettings(_Section):
    """``format``: console for people at a terminal, json for machines."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


class Settings(BaseSettings):
    """All settings of one process; see docs/reference/settings.md. The environment wins over the file.

    ``secret`` authorises calls between the processes of one installation; empty means a random one kept
    in the data directory, which suits one machine and one user; split roles must share one.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    data_dir: Path = Path("siltstone-data")
    roles: tuple[Role, ...] = ROLES
    secret: str | None = None
    metadata: MetadataSettings = MetadataSettings()
    deep_storage: Annotated[LocalStorage | S3Storage, Field(discriminator="type")] = LocalStorage()
    http: HttpSettings = HttpSettings()
    worker: WorkerSettings = WorkerSettings()
    quarantine: QuarantineSettings = QuarantineSettings()
    overlord: OverlordSettings = OverlordSettings()
    query: QuerySettings = QuerySettings()
    jdbc: JdbcSettings = JdbcSettings()
    log: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        given = init_settings()
        overrides = InitSettingsSource(settings_cls, given.pop("overrides", {}))
        return (overrides, env_settings, InitSettingsSource(settings_cls, given))

    @field_validator("roles", mode="before")
    @classmethod
    def _roles_from_text(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.roles:
            raise ValueError(f"roles: at least one of {', '.join(ROLES)} is needed")
        if not is_loopback(self.http.host) and not self.http.allow_unauthenticated:
            raise ValueError(
                f"http.host: {self.http.host} can be reached from outside and nothing checks who calls; "
                "bind 127.0.0.1, or set http.allow_unauthenticated: true if the network does the checking"
            )
        alone = set(self.roles) == {"middle-manager"}
        if alone and not self.overlord.urls:
            raise ValueError("overlord.urls: a middle manager on its own must be told where the overlords are")
        if self.overlord.urls and not self.secret and not {"overlord"} & set(self.roles):
            raise ValueError("secret: processes on several machines must share one secret; set the same on each")
        return self

    @property
    def metadata_url(self) -> str:
        """The database's URL with its default filled in."""
        return self.metadata.url or f"sqlite:///{self.data_dir.resolve() / 'metadata.db'}"

    @property
    def auto_migrate(self) -> bool:
        """Whether ``serve`` brings the database's schema up to date by itself."""
        chosen = self.metadata.auto_migrate
        return self.metadata_url.startswith("sqlite") if chosen is None else chosen


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load(path: Path | None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings of the file at ``path`` (or the defaults), the environment over it, ``overrides`` (from the
    command line, nested as in the file) over both.

    Raises:
        SettingsError: the file cannot be read, or any key is unknown or any value wrong; all at once.
    """
    content = _merged(_read(path), {})
    unknown = [*_unknown_in_file(content), *_unknown_in_environment(os.environ)]
    try:
        # Fields are what the file has: pydantic judges them, not mypy.
        settings = Settings(**content, overrides=dict(overrides or {}))  # type: ignore[call-arg]
    except ValidationError as error:
        faults = [_fault(item) for item in error.errors() if item["type"] != "extra_forbidden"]
        raise SettingsError("\n".join([*unknown, *faults])) from None
    if unknown:
        raise SettingsError("\n".join(unknown))
    return settings


class _OnceLoader(yaml.SafeLoader):
    """Refuses a key that stands twice, of which YAML would drop the first without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value} stands twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        # Safe: it makes plain values only.
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_OnceLoader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}; give --config an existing file") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        raise SettingsError(f"{path}: not YAML{place}: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise SettingsError(f"{path}: nested too deeply") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: expected keys and values, found {type(content).__name__}")
    return content


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(value, Mapping) and isinstance(old, Mapping) else value
    return merged


def known_keys(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[str]:
    """Every dotted key, those of each kind of deep storage included."""
    for name, field in model.model_fields.items():
        sections = [part for part in _parts(field.annotation) if issubclass(part, BaseModel)]
        for section in sections:
            yield from known_keys(section, f"{prefix}{name}.")
        if not sections:
            yield prefix + name


def _parts(annotation: Any) -> list[type]:
    if isinstance(annotation, type):
        return [annotation]
    return [part for argument in typing.get_args(annotation) for part in _parts(argument)]


def _unknown_in_file(content: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    known = set(known_keys())
    sections = {name.rpartition(".")[0] for name in known} - {""}
    for key, value in content.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping) and any(name.startswith(dotted + ".") for name in known):
            yield from _unknown_in_file(value, dotted + ".")
        elif dotted not in known and not any(name.startswith(dotted + ".") for name in known):
            # A section is rather a misspelt section than one of its keys.
            yield _unknown(dotted, dotted, sections if isinstance(value, Mapping) else known | sections)


def _unknown_in_environment(environment: Mapping[str, str]) -> Iterator[str]:
    """Names with a section must be known; others only if they look like a misspelt key, for the
    prefix is also used by scripts around the product."""
    known = {ENV_PREFIX + key.upper().replace(".", "__"): key for key in known_keys()}
    sections = {name.split("__")[0] for name in known if "__" in name}
    for name in environment:
        if not name.startswith(ENV_PREFIX) or name in known or name in sections or name in CLIENT_VARIABLES:
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
        if "__" in name or near:
            yield _unknown(name, name, known)


def _unknown(shown: str, name: str, known: typing.Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"{shown}: unknown key" + (f"; the nearest known one is {near[0]}" if near else "")


def _fault(error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"] if part not in ("local", "s3"))
    message = str(error["msg"]).removeprefix("Value error, ")
    is_shown = error["type"] != "database" and not isinstance(error["input"], Mapping | Settings)
    found = f" (found {error['input']!r})" if is_shown else ""
    return f"{path}: {message}{found}" if path else message
