"""Runs the store's transactions on SQL and says what became of one that failed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NoReturn, TypeVar

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ingest.errors import StoreSchemaError, StoreUnreachable, StoreWentBack
from ingest.metadata.engine import READ_STATEMENT_MS, WRITING, mask_url
from ingest.metadata.marks import Marks, Seen
from ingest.metadata.patience import READ_SILENCE_S, PatientConnection
from ingest.metadata.sql_marks import MARKS, RAISED, found_in
from segments.errors import InvalidValue

T = TypeVar("T")

PROVED = "siltstone_proved"
"""In a connection's ``info``: it leads to a database that holds what was seen."""
TRIES_MAX = 5
"""Deadlocks, serialisation failures and a busy SQLite have certainly written nothing: tried again at once."""

# A reader locks nothing. While it turns a hundred thousand rows into records its session looks idle,
# and must not be ended for that.
_PATIENT_READ = (
    f"SET LOCAL statement_timeout = {READ_STATEMENT_MS};"
    f" SET LOCAL idle_in_transaction_session_timeout = {READ_STATEMENT_MS}"
)

# PostgreSQL: serialization_failure, deadlock_detected, unique_violation (two first inserts of one key).
_AGAIN = {"40001", "40P01", "23505"}
_SHUTTING_DOWN = {"57P01", "57P02", "57P03"}


class SqlSession:
    """The engine with the store's ways to begin, commit and fail; safe from any thread.

    On SQLite the writers of this process queue on a lock, so that none is starved by the busy
    handler's back-off; other processes are waited for by the busy timeout and a retry.
    """

    def __init__(self, engine: Engine, marks: Marks | None = None) -> None:
        """``marks``: what the database must hold; None for who only looks at its schema."""
        self.engine = engine
        self.marks = marks or Marks()
        self._proves = marks is not None
        self.sqlite = engine.dialect.name == "sqlite"
        self._where = mask_url(engine.url)
        self._writers: Any = threading.Lock() if self.sqlite else nullcontext()

    def write(self, work: Callable[[Connection], T]) -> T:
        """One transaction, durable when this returns; ``work`` may run several times and must only
        touch the connection.

        Raises:
            StoreUnreachable: ``effect_known_absent`` is False only if the connection failed while the
                commit was under way.
        """
        for tried in range(1, TRIES_MAX + 1):
            try:
                with self._writers:
                    return self._write_once(work)
            except DBAPIError as error:
                if tried == TRIES_MAX or not _may_repeat(error):
                    self._raise(error, absent=True)
            except PoolTimeout as error:
                self._raise(error, absent=True)
            except ValueError as error:
                refuse_nul(error)
                raise
            except StoreWentBack:
                self.engine.dispose()  # noticed in the middle: every connection proves itself anew
                raise
        raise AssertionError("not reached")

    def _write_once(self, work: Callable[[Connection], T]) -> T:
        with self.engine.connect() as connection:
            self._prove(connection)
            raised: dict[str, int] = {}
            connection.info[MARKS], connection.info[RAISED] = self.marks, raised
            connection = connection.execution_options(**{WRITING: True})
            transaction = connection.begin()
            try:
                result = work(connection)
            except BaseException:
                with suppress(SQLAlchemyError):
                    transaction.rollback()
                raise
            try:
                transaction.commit()
            except SQLAlchemyError as error:
                with suppress(SQLAlchemyError):
                    transaction.rollback()
                # An error that the server reported itself is an answer; a broken connection is none.
                answered = isinstance(error, DBAPIError) and _code(error) not in ({None} | _SHUTTING_DOWN)
                self._raise(error, absent=answered)
            self.marks.note_versions(raised)
            return result

    def _prove(self, connection: Connection) -> None:
        """A connection that is new may lead to another database than the one before: it must hold all that was seen.

        Raises:
            StoreWentBack: it does not.
        """
        if not self._proves or connection.info.get(PROVED):
            return
        with connection.begin():
            self.judge(connection, self.marks.seen())
        connection.info[PROVED] = True

    def judge(self, connection: Connection, expected: Seen) -> None:
        """Holds the database to what was seen before the running transaction began.

        Raises:
            StoreWentBack: it is older. Connections made from now on have to prove themselves.
        """
        if expected == Seen():
            return
        missing = expected.missing_in(found_in(connection, expected))
        if missing is not None:
            self.refuse(missing)

    def refuse(self, missing: str) -> NoReturn:
        """Raises StoreWentBack, and lets every connection prove itself anew."""
        self.engine.dispose()
        raise StoreWentBack(self._where, missing)

    def read(self, work: Callable[[Connection], T]) -> T:
        """One read-only transaction on one snapshot of the whole database.

        Raises:
            StoreUnreachable: nothing was read.
        """
        try:
            with self.engine.connect() as plain:
                self._prove(plain)
                connection = self._reader(plain)
                with connection.begin(), self._patience(connection):
                    return work(connection)
        except (DBAPIError, PoolTimeout) as error:
            self._raise(error, absent=True)
        except ValueError as error:
            refuse_nul(error)
            raise

    def _reader(self, connection: Connection) -> Connection:
        if self.sqlite:
            return connection
        return connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @contextmanager
    def _patience(self, connection: Connection) -> Iterator[None]:
        if self.sqlite:
            yield
            return
        connection.exec_driver_sql(_PATIENT_READ)
        session = connection.connection.driver_connection
        assert isinstance(session, PatientConnection)
        session.silence_s, before = READ_SILENCE_S, session.silence_s
        try:
            yield
        finally:
            session.silence_s = before

    def close(self) -> None:
        self.engine.dispose()

    def _raise(self, error: SQLAlchemyError, *, absent: bool) -> NoReturn:
        """The error in the port's words; a statement that is wrong in itself stays what it is."""
        message = explain(error, self._where)
        if SCHEMA_CURE in message:
            raise StoreSchemaError(message) from error
        if isinstance(error, IntegrityError | DataError | ProgrammingError) and not error.connection_invalidated:
            raise error
        raise StoreUnreachable(message, effect_known_absent=absent) from error


def refuse_nul(error: ValueError) -> None:
    """PostgreSQL has no text with a NUL character; its driver says so before it asks.

    Raises:
        InvalidValue: that is what ``error`` says.
    """
    if not isinstance(error, InvalidValue) and "NUL (0x00)" in str(error):
        raise InvalidValue("a name holds a NUL character, which nothing here is named by; correct it") from error


def _code(error: DBAPIError) -> str | None:
    """PostgreSQL's five-letter code; None when no server said anything."""
    return getattr(error.orig, "pgcode", None)


def _may_repeat(error: DBAPIError) -> bool:
    if error.connection_invalidated:
        return False
    if _code(error) in _AGAIN:
        return True
    text = str(error.orig)
    return "database is locked" in text or (isinstance(error, IntegrityError) and "UNIQUE" in text)


SCHEMA_CURE = "the schema is missing; run `siltstone migrate`"

# What the driver says, and what a person can do about it.
_CURES = (
    ("password authentication failed", "the user or password of metadata.url is refused; correct it"),
    ("no pg_hba.conf entry", "the server does not let this user in from here; see its pg_hba.conf"),
    (
        "database",
        "does not exist",
        "the database does not exist; create it, then run `siltstone migrate`",
    ),
    ("role", "does not exist", "the user of metadata.url does not exist on the server; create it"),
    ("could not translate host name", "the host of metadata.url is unknown; correct it or its DNS entry"),
    ("connection refused", "nobody listens there; start the database or correct host and port"),
    ("timeout expired", "no answer from the host in time; check the network and that the database runs"),
    ("statement timeout", "a statement took longer than the lease allows; the database is overloaded"),
    ("lock timeout", "another transaction held a row too long; it ends by its own time-out"),
    ("unable to open database file", "the file cannot be opened; check the folder and its rights"),
    ("readonly database", "the file cannot be written; check its rights and the file system"),
    ("disk is full", "the disk is full; make room"),
    ("database is locked", "another process has been writing to the file for long; is it one of ours?"),
    ("no such table", SCHEMA_CURE),
    ("relation", "does not exist", SCHEMA_CURE),
    ("file is not a database", "the file is not a SQLite database; correct metadata.url"),
)


def explain(error: SQLAlchemyError, where: str) -> str:
    """One line for people: which database, what it said, what to do."""
    said = str(getattr(error, "orig", None) or error).strip().splitlines()
    first = said[0] if said else type(error).__name__
    lowered = " ".join(said).lower()
    for *marks, cure in _CURES:
        if all(mark in lowered for mark in marks):
            return f"metadata database {where}: {cure} ({first})"
    return f"metadata database {where} did not answer ({first})"
