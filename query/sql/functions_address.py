"""Rules for addresses: IPv4 as text or as numbers, IPv6 as text."""

from __future__ import annotations

import ipaddress

from query.errors import InvalidQuery
from query.sql import term as t
from query.sql.casts import as_string, cast_to
from query.sql.frame import Frame, scalar
from query.sql.functions_time import constant_text
from query.sql.term import Term
from query.sql.types import BIGINT, BOOLEAN, VARCHAR, Family

_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_ADDRESS = f"'{_OCTET}([.]{_OCTET}){{3}}'"
_LARGEST = 2**32 - 1


def _number(operand: Term) -> str:
    """The address as a number; NULL for what is none."""
    if operand.family is Family.LONG:
        return f"(CASE WHEN {operand.sql} BETWEEN 0 AND {_LARGEST} THEN {operand.sql} END)"
    text = as_string(operand).sql
    parts = [f"CAST(split_part({text}, '.', {at}) AS BIGINT) * {256 ** (4 - at)}" for at in (1, 2, 3, 4)]
    return f"(CASE WHEN regexp_full_match({text}, {_ADDRESS}) THEN {' + '.join(parts)} END)"


@scalar("IPV4_PARSE")
def _parse(frame: Frame, terms: list[Term]) -> Term:
    return Term(_number(terms[0]), BIGINT)


@scalar("IPV4_MATCH", least=2)
def _match(frame: Frame, terms: list[Term]) -> Term:
    spelled = constant_text(terms[1], "the subnet of IPV4_MATCH")
    try:
        subnet = ipaddress.IPv4Network(spelled, strict=False)
    except ValueError as error:
        raise InvalidQuery(f"{spelled!r} is not an IPv4 subnet such as 10.1.0.0/16") from error
    first, last = int(subnet.network_address), int(subnet.broadcast_address)
    return t.expression(f"coalesce({_number(terms[0])} BETWEEN {first} AND {last}, FALSE)", BOOLEAN)


@scalar("IPV4_STRINGIFY")
def _stringify(frame: Frame, terms: list[Term]) -> Term:
    if terms[0].family is Family.STRING:
        text = terms[0].sql
        return t.expression(f"CASE WHEN regexp_full_match({text}, {_ADDRESS}) THEN {text} END", VARCHAR)
    if terms[0].family is Family.DOUBLE:
        return t.null(VARCHAR)
    number = cast_to(terms[0], BIGINT).sql
    octets = " || '.' || ".join(f"CAST(({number} >> {shift}) & 255 AS VARCHAR)" for shift in (24, 16, 8, 0))
    return t.expression(f"CASE WHEN {number} BETWEEN 0 AND {_LARGEST} THEN {octets} END", VARCHAR)


@scalar("IPV6_MATCH", least=2)
def _match_six(frame: Frame, terms: list[Term]) -> Term:
    spelled = constant_text(terms[1], "the subnet of IPV6_MATCH")
    try:
        ipaddress.IPv6Network(spelled, strict=False)
    except ValueError as error:
        raise InvalidQuery(f"{spelled!r} is not an IPv6 subnet such as 2001:db8::/32") from error
    found = f"{frame.session.kernel('text_in_subnet')}({as_string(terms[0]).sql}, {t.text_sql(spelled)})"
    return t.expression(f"coalesce({found}, FALSE)", BOOLEAN)
