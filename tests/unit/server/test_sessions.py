"""What a front remembers of sessions, within its bound."""

from __future__ import annotations

import pytest

from query.assembly import Reached
from query.session import Seen, spell
from server.sessions import BadSession, Sessions, read_all, session_of


def seen(version: int, *offsets: int) -> Seen:
    return Seen(version, {("s", p): Reached(0, offset) for p, offset in enumerate(offsets)})


def test_a_session_is_named_by_header_before_cookie() -> None:
    assert session_of("me", "siltstone-session=you") == "me"
    assert session_of(None, "a=b; siltstone-session=you; c=d") == "you"
    assert session_of(None, "a=b") is None and session_of(None, None) is None
    assert session_of(None, 'siltstone-session="no id"') is None, "somebody else's cookie"
    for wrong in ("", "two words", "x" * 65, "ü"):
        with pytest.raises(BadSession, match="X-Siltstone-Session"):
            session_of(wrong, None)


def test_a_new_session_gets_an_id_that_can_be_sent_again() -> None:
    drawn = session_of("new", None)
    assert drawn is not None and drawn != "new" and session_of(drawn, None) == drawn != session_of("new", None)


def test_what_nodes_showed_is_joined_by_table_and_kept_apart_by_session() -> None:
    sessions = Sessions()
    assert sessions.seen("a") == "" == sessions.last_node("a")
    sessions.remember("a", spell({"wiki": seen(5, 100, 7)}), "n1:1")
    sessions.remember("a", spell({"wiki": seen(4, 90, 9), "ads": seen(1)}), "n2:1")
    sessions.remember("b", spell({"wiki": seen(9)}), "n3:1")
    assert read_all(sessions.seen("a")) == {"wiki": seen(5, 100, 9), "ads": seen(1)}
    assert read_all(sessions.seen("b")) == {"wiki": seen(9)}
    assert (sessions.last_node("a"), sessions.last_node("b")) == ("n2:1", "n3:1")


def test_what_no_node_wrote_is_ignored() -> None:
    sessions = Sessions()
    for text in ("", "nonsense", "AAAA,BBBB"):
        sessions.remember("a", text, "n:1")
    assert sessions.seen("a") == "" == sessions.last_node("a")


def test_the_bound_forgets_what_was_not_answered_for_the_longest() -> None:
    sessions = Sessions(entries_max=2)
    for name in ("a", "b", "a", "c"):
        sessions.remember(name, spell({"wiki": seen(1)}), "n:1")
    assert [bool(sessions.seen(name)) for name in "abc"] == [True, False, True]
    assert [sessions.last_node(name) for name in "abc"] == ["n:1", "", "n:1"]
    size = len(spell({"wiki": seen(1)}))
    sessions = Sessions(bytes_max=2 * size)
    for name in "abc":
        sessions.remember(name, spell({"wiki": seen(1)}), "n:1")
    assert [bool(sessions.seen(name)) for name in "abc"] == [False, True, True]


def test_a_session_of_very_many_tables_keeps_the_latest_within_a_header() -> None:
    sessions = Sessions()
    many = range(0, 10**6, 400)
    for number in range(10):
        sessions.remember("a", spell({f"t{number}": seen(1, *many)}), "n:1")
    kept = read_all(sessions.seen("a"))
    assert "t9" in kept and "t0" not in kept and len(kept) >= 2
