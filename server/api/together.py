"""Answers equal questions together: who asks what is being answered waits for the next answer, with all who do.

Fifty dashboards that refresh at once cost two runs and fifty sends: no thread, plan, binding or text of rows for each.
Nobody gets an answer from before it asked: a query begins after all who wait for it have come, so it sees tables as
new as any of them could. Nobody waits longer than ``GATHER_S`` for it to begin.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Hashable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import Response

from query.errors import QueryCancelled
from server.api.streaming import Answer, Begin, Ticket, begun_in_thread, one_query, response_to, watch

GATHER_S: Final = 0.03
"""How long questions gather at most while an equal one is answered."""


class Together:
    """The questions of one endpoint that are being answered, for one event loop; at most ``at_once`` queries of it
    wait in threads."""

    def __init__(self, at_once: CapacityLimiter) -> None:
        self._at_once = at_once
        self._places: dict[Hashable, _Place] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def answered(self, request: Request, question: Hashable | None, begin: Begin) -> Response:
        """The answer, made alone or with others that ask the same ``question``; to None always alone.

        ``begin`` runs in a thread, and once for those who wait together. Raises what it raises.
        """
        if question is None:
            return await one_query(request, begin, self._at_once)
        place = self._places.get(question)
        if place is not None:
            return await self._with_others(request, question, place, begin)
        place = self._places[question] = _Place()
        running = place.running
        try:
            return await one_query(request, begin, self._at_once)
        finally:
            running.set()
            self._leave(question, place, running)

    async def _with_others(self, request: Request, question: Hashable, place: _Place, begin: Begin) -> Response:
        together = place.gathering
        if together is None:
            together = place.gathering = _Round()
            # The loop itself holds a task only weakly.
            task = asyncio.get_running_loop().create_task(self._run(question, place, together, begin))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        together.waiting += 1
        watching = asyncio.get_running_loop().create_task(watch(request.receive, together.leave))
        try:
            await together.over.wait()
        finally:
            watching.cancel()
        answer = together.taken()
        if answer is None:
            return await one_query(request, begin, self._at_once)
        # What is read as it is made still runs for its one reader, who may cancel it by the id that the query has.
        return response_to(request, answer, str(uuid.uuid4()) if answer.whole is not None else "")

    async def _run(self, question: Hashable, place: _Place, together: _Round, begin: Begin) -> None:
        _, waited = await asyncio.wait([asyncio.ensure_future(place.running.wait())], timeout=GATHER_S)
        for waiter in waited:
            waiter.cancel()
        # Who comes from now on is in the next round: this one may already have looked at the tables.
        place.gathering, place.running, together.is_begun = None, together.over, True
        try:
            if not together.waiting:
                raise QueryCancelled("all who asked have gone away")
            together.answer = await begun_in_thread(begin, together.ticket, together.waiting, self._at_once)
        except Exception as error:
            together.error, together.came_from = error, error.__traceback__
        finally:
            together.over.set()
            self._leave(question, place, together.over)

    def _leave(self, question: Hashable, place: _Place, over: asyncio.Event) -> None:
        if place.running is over and place.gathering is None:
            del self._places[question]


@dataclass(slots=True)
class _Place:
    """One question: whether the query that began last is ``running`` yet, and those who wait for the next one."""

    running: asyncio.Event = field(default_factory=asyncio.Event)
    gathering: _Round | None = None


@dataclass(slots=True)
class _Round:
    """One query for all who wait for it; ``over`` when there is an answer or an error."""

    over: asyncio.Event = field(default_factory=asyncio.Event)
    ticket: Ticket = field(default_factory=Ticket)
    waiting: int = 0
    is_begun: bool = False
    answer: Answer | None = None
    error: Exception | None = None
    came_from: TracebackType | None = None

    def leave(self) -> None:
        """One of them went away; when nobody is left the query ends. Until it has begun others may come."""
        self.waiting -= 1
        if self.is_begun and not self.waiting:
            self.ticket.cancel()

    def taken(self) -> Answer | None:
        """The answer; one that is read as it is made is for the first who takes it, and None for the others."""
        if self.error is not None:
            # From where it came, without the ways of those who were told before: a log would show them all to each.
            raise self.error.with_traceback(self.came_from)
        answer = self.answer
        if answer is not None and answer.whole is None:
            self.answer = None
        return answer
