"""Lines of text and whole Kafka records become rows; every message still ends in exactly one fate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.appenderator.decoding import DecodedBatch, Fate, RowDecoder
from ingest.stream.supplier import Headers, Poll
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, spec_of

TIME = "2023-11-14T22:13:20Z"
PLAIN: dict[str, Any] = {
    "dimensionsSpec": {"dimensions": ["a", "b", {"type": "long", "name": "n"}]},
    "granularitySpec": {"rollup": False},
}
CSV = {"type": "csv", "columns": ["t", "a", "b", "n"]}


def decode(messages: list[Any], form: dict[str, Any], schema: dict[str, Any] | None = None) -> DecodedBatch:
    """Decoded fast, after the slow way was held equal."""
    spec = spec_of(PLAIN if schema is None else schema, input_format=form)
    fast = RowDecoder(spec.data_schema).decode([poll_of(messages)], OPENED_MS)
    slow = RowDecoder(spec.data_schema, only_slow=True).decode([poll_of(messages)], OPENED_MS)
    assert str(fast.rows.to_pylist()) == str(slow.rows.to_pylist())
    assert list(fast.fates) == list(slow.fates)
    return fast


def fates(batch: DecodedBatch) -> list[Fate]:
    return [Fate(fate) for fate in batch.fates]


def column(batch: DecodedBatch, name: str) -> list[Any]:
    values: list[Any] = batch.rows.column(name).to_pylist()
    return values


def test_quotes_hold_delimiters_and_quotes_and_tell_an_empty_text_from_none() -> None:
    lines = ['%s,"x,y","say ""hi""",1', '%s,"",,2', "%s,plain,a,03"]
    batch = decode([(line % TIME).encode() for line in lines], CSV)
    assert fates(batch) == [Fate.GOOD] * 3
    assert column(batch, "a") == ["x,y", "", "plain"]
    assert column(batch, "b") == ['say "hi"', None, "a"]
    assert column(batch, "n") == [1, 2, 3]


ODD_LINES = [
    *('"", "a"', "a,b", '"a""b",,', 'a"b,"c', '"a"b', '"open', '""', ',"",', '"x,y",""', 'a""b', '"a"",""b"', "\0,b"),
    *(' ,"q"', '"\u2028",x', "x" * 200_000, f'"{"y" * 200_000}"'),
]


@settings(max_examples=30)
@given(st.lists(st.sampled_from(ODD_LINES) | st.text('ab,"', min_size=1, max_size=8), min_size=1, max_size=12))
def test_quoted_lines_are_split_alike_in_batches_and_alone(lines: list[str]) -> None:
    form = {"type": "csv", "columns": ["a", "b", "c"]}
    schema = {
        "timestampSpec": {"column": "none", "missingValue": TIME},
        "dimensionsSpec": {"dimensions": ["a", "b", "c"]},
        "granularitySpec": {"rollup": False},
    }
    batch = decode([line.encode() for line in lines], form, schema)
    assert batch.messages == len(lines)


@pytest.mark.parametrize("line", [f'{TIME},"open', f'{TIME},"a"b,c', "\xff".encode("latin-1"), f"x{TIME},a"])
def test_a_line_that_cannot_be_read_is_rejected_alone(line: str | bytes) -> None:
    message = line if isinstance(line, bytes) else line.encode()
    batch = decode([message, f"{TIME},ok".encode()], CSV)
    assert fates(batch) == [Fate.UNPARSEABLE, Fate.GOOD]
    assert batch.rejected[0].value == message


def test_several_lines_in_a_message_are_several_rows_and_a_bad_one_is_partly() -> None:
    message = f'{TIME},a\n{TIME},"open\n\n{TIME},b\r\n'.encode()
    batch = decode([message, b"", b" \n", None], CSV)
    assert fates(batch) == [Fate.PARTLY, Fate.TOMBSTONE, Fate.TOMBSTONE, Fate.TOMBSTONE]
    assert column(batch, "a") == ["a", "b"]


def test_the_header_is_each_messages_own() -> None:
    form = {"type": "csv", "findColumnsFromHeader": True, "skipHeaderRows": 1}
    batch = decode([f"junk\nt,b,a\n{TIME},1,2".encode(), f"junk\na,t\n3,{TIME}".encode(), b"junk"], form)
    assert column(batch, "a") == ["2", "3"] and column(batch, "b") == ["1", None]
    assert fates(batch) == [Fate.GOOD, Fate.GOOD, Fate.UNPARSEABLE]
    assert fates(decode([b"junk\nt,,t\n1,2,3"], form)) == [Fate.UNPARSEABLE]


def test_tsv_has_its_delimiter_lists_and_numbers() -> None:
    form = {
        "type": "tsv",
        "delimiter": "|",
        "listDelimiter": ";",
        "columns": ["t", "a", "b", "n"],
        "tryParseNumbers": True,
    }
    schema = {"dimensionsSpec": {"useSchemaDiscovery": True}, "granularitySpec": {"rollup": False}}
    batch = decode([f'{TIME}|07|1;x|"q"'.encode(), f"{TIME}|1e3||-2.5".encode()], form, schema)
    assert column(batch, "a") == [7.0, 1000.0]
    assert column(batch, "b") == [["1", "x"], None]
    assert column(batch, "n") == ['"q"', "-2.5"]
    assert column(decode([f"{TIME}|99999999999999999999|1e999".encode()], form, schema), "b") == ["1e999"]


def test_a_line_must_match_the_pattern_as_a_whole() -> None:
    form = {"type": "regex", "pattern": r"^([^ ]+) \[([a-z()\]]*)\] (?:x|(?<n>\d+))$", "columns": ["t", "a", "n"]}
    batch = decode([f"{TIME} [ab()] 5".encode(), f"{TIME} [] x".encode(), f"{TIME} [A] 5".encode()], form)
    assert column(batch, "a") == ["ab()", None] and column(batch, "n") == [5, None]
    assert fates(batch) == [Fate.GOOD, Fate.GOOD, Fate.UNPARSEABLE]


def test_a_pattern_that_backtracks_elsewhere_ends_at_once() -> None:
    form = {"type": "regex", "pattern": "(a+)+(b)", "columns": ["t", "a"]}
    assert fates(decode([b"a" * 100_000], form)) == [Fate.UNPARSEABLE]


def test_lines_are_whole_texts() -> None:
    schema = {
        "timestampSpec": {"column": "none", "missingValue": TIME},
        "dimensionsSpec": {"dimensions": ["line"]},
        "granularitySpec": {"rollup": False},
    }
    batch = decode([b"one\ntwo", b"three, all of it"], {"type": "lines"}, schema)
    assert column(batch, "line") == ["one", "two", "three, all of it"]


FEATURES = [
    ("ALLOW_COMMENTS", '{/* a */"t":"T",// b\n"a":"x"}'),
    ("ALLOW_YAML_COMMENTS", '{"t":"T",# b\n"a":"x"}'),
    ("ALLOW_SINGLE_QUOTES", "{'t':'T','a':'x'}"),
    ("ALLOW_UNQUOTED_FIELD_NAMES", '{t:"T",a:"x"}'),
    ("ALLOW_UNQUOTED_CONTROL_CHARS", '{"t":"T","a":"x","b":"\t"}'),
    ("ALLOW_BACKSLASH_ESCAPING_ANY_CHARACTER", '{"t":"T","a":"\\x"}'),
    ("ALLOW_NUMERIC_LEADING_ZEROS", '{"t":"T","a":"x","n":0012}'),
    ("ALLOW_LEADING_PLUS_SIGN_FOR_NUMBERS", '{"t":"T","a":"x","n":+12}'),
    ("ALLOW_LEADING_DECIMAL_POINT_FOR_NUMBERS", '{"t":"T","a":"x","b":.5}'),
    ("ALLOW_TRAILING_DECIMAL_POINT_FOR_NUMBERS", '{"t":"T","a":"x","b":5.}'),
    ("ALLOW_NON_NUMERIC_NUMBERS", '{"t":"T","a":"x","b":NaN}'),
    ("ALLOW_MISSING_VALUES", '{"t":"T","a":"x","b":["y",,"z"]}'),
    ("ALLOW_TRAILING_COMMA", '{"t":"T","a":["x",],}'),
]


@pytest.mark.parametrize(("feature", "message"), FEATURES, ids=[name for name, _ in FEATURES])
def test_each_feature_takes_what_json_does_not(feature: str, message: str) -> None:
    text = message.replace('"T"', f'"{TIME}"').replace("'T'", f"'{TIME}'").encode()
    assert fates(decode([text], {"type": "json"})) == [Fate.UNPARSEABLE]
    batch = decode([text, b'{"t":"%s","a":"x"}' % TIME.encode()], {"type": "json", "featureSpec": {feature: True}})
    assert (fates(batch), column(batch, "a")) == ([Fate.GOOD, Fate.GOOD], ["x", "x"])
    other = next(name for name, _ in FEATURES if name != feature)
    assert fates(decode([text], {"type": "json", "featureSpec": {other: True}})) == [Fate.UNPARSEABLE]


def test_leniency_ends_where_the_features_do() -> None:
    form = {"type": "json", "featureSpec": {name: True for name, _ in FEATURES}}
    bad = [b"{", b"{]", b"[1 2]", b"{t}", b"'open", b"{'t':1:2}", b"/* open", b"nul", b"[" * 5_000, b"{a:\\u12}"]
    assert set(fates(decode(list(bad), form))) == {Fate.UNPARSEABLE}


# ---------------------------------------------------------------- whole records

KAFKA: dict[str, Any] = {
    "type": "kafka",
    "valueFormat": {"type": "json"},
    "keyFormat": {"type": "tsv", "columns": ["x"]},
    "headerFormat": {"type": "string"},
}
WHOLE = {
    "timestampSpec": {"column": "kafka.timestamp", "format": "millis"},
    "dimensionsSpec": {"dimensions": []},
    "granularitySpec": {"rollup": False},
}


def record_poll(*records: tuple[bytes | None, bytes | None, Headers]) -> Poll:
    poll = poll_of([value for value, _, _ in records], timestamps_ms=[1_680_795_276_351] * len(records))
    return replace(poll, keys=[key for _, key, _ in records], headers=[headers for _, _, headers in records])


def read_records(poll: Poll, form: dict[str, Any] | None = None, **io: Any) -> DecodedBatch:
    schema = spec_of(WHOLE, input_format=KAFKA if form is None else form, io=io).data_schema
    fast = RowDecoder(schema).decode([poll], OPENED_MS)
    slow = RowDecoder(schema, only_slow=True).decode([poll], OPENED_MS)
    assert str(fast.rows.to_pylist()) == str(slow.rows.to_pylist())
    assert (list(fast.fates), fast.rejected) == (list(slow.fates), slow.rejected)
    return fast


def test_a_record_is_its_value_with_key_headers_time_and_topic_beside_it() -> None:
    headers = [("env", b"development"), ("zone", b"z1"), ("zone", b"z2"), ("none", None)]
    batch = read_records(record_poll((b'{"channel":"#sv","kafka.header.env":"own"}', b"wiki-edit", headers)))
    [row] = batch.rows.to_pylist()
    assert row["channel"] == "#sv" and row["kafka.header.env"] == "own", "the value's own fields win"
    assert (row["kafka.key"], row["kafka.topic"], row["kafka.header.zone"]) == ("wiki-edit", "topic", "z2")
    assert row["__time"] == 1_680_795_276_351 and "kafka.header.none" not in row


def test_a_record_without_a_value_is_a_row_of_what_stands_beside_it() -> None:
    batch = read_records(record_poll((None, b"k", ()), (b"", b"k", ()), (b"{}", None, ())))
    assert fates(batch) == [Fate.GOOD, Fate.TOMBSTONE, Fate.GOOD]
    assert column(batch, "kafka.key") == ["k", None]


def test_a_key_that_cannot_be_read_rejects_its_record_alone() -> None:
    form = {**KAFKA, "keyFormat": {"type": "json"}}
    good, bad = (b'{"a":1}', b'{"id":7,"x":8}', ()), (b'{"a":2}', b"{broken", ())
    batch = read_records(record_poll(good, bad, (b'{"a":3}', b"[]", ()), (b'{"a":4}', b"{}", ())), form)
    assert fates(batch) == [Fate.GOOD, Fate.UNPARSEABLE, Fate.UNPARSEABLE, Fate.GOOD]
    assert column(batch, "kafka.key") == ["7", None]
    assert batch.rejected[0].reason.startswith("key: ")


def test_names_and_encodings_are_the_specs() -> None:
    form = {
        **KAFKA,
        "headerFormat": {"type": "string", "encoding": "UTF-16BE"},
        "headerColumnPrefix": "h_",
        "keyColumnName": "k",
        "topicColumnName": "from",
        "valueFormat": {"type": "csv", "columns": ["a", "b"]},
    }
    batch = read_records(record_poll((b"1,2", b"key", [("env", "dév".encode("utf-16-be"))])), form)
    [row] = batch.rows.to_pylist()
    assert (row["h_env"], row["k"], row["from"], row["a"]) == ("dév", "key", "topic", "1")


def test_headers_keep_records_out_before_they_are_decoded() -> None:
    wanted = {"filter": {"type": "in", "dimension": "env", "values": ["prod", "test"]}}
    poll = record_poll(
        (b'{"a":"in"}', None, [("env", b"prod")]),
        (b"{broken", None, [("env", b"dev")]),
        (b'{"a":"last wins"}', None, [("env", b"dev"), ("env", b"test")]),
        (b'{"a":"no header"}', None, ()),
        (b'{"a":"no value"}', None, [("env", None)]),
        (b"{broken", None, [("env", b"prod")]),
    )
    batch = read_records(poll, headerBasedFilterConfig=wanted)
    assert fates(batch) == [Fate.GOOD, Fate.FILTERED, *[Fate.GOOD] * 3, Fate.UNPARSEABLE]
    assert column(batch, "a") == ["in", "last wins", "no header", "no value"]
    assert [record.offset for record in batch.rejected] == [5]
    assert sum(counts.messages for counts in batch.counts().values()) == 6
