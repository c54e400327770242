"""Spells floating numbers as Java does, in the engine (pure)."""

from __future__ import annotations


def java_text(x: str) -> str:
    """A floating number as ``segments.coercion.java_double`` spells it: what a spill or segment will hold
    once its column has become text, so that an answer does not change when rows are handed off."""
    shown = f"CAST(abs({x}) AS VARCHAR)"  # the shortest digits, with an exponent below 1e-4 and from 1e16 on
    sign = f"CASE WHEN {x} < 0 THEN '-' ELSE '' END"
    mantissa = f"split_part({shown}, 'e', 1)"
    scientific = (
        f"{mantissa} || CASE WHEN contains({mantissa}, '.') THEN '' ELSE '.0' END"
        f" || 'E' || CAST(CAST(split_part({shown}, 'e', 2) AS INTEGER) AS VARCHAR)"
    )
    digits = f"rtrim(ltrim(replace({shown}, '.', ''), '0'), '0')"
    scale = f"CASE WHEN abs({x}) < 1 THEN -4 ELSE strpos({shown}, '.') - 2 END"
    moved = f"{digits}[1] || '.' || coalesce(nullif({digits}[2:], ''), '0') || 'E' || CAST({scale} AS VARCHAR)"
    return (
        f"CASE WHEN isnan({x}) THEN 'NaN' WHEN isinf({x}) THEN {sign} || 'Infinity'"
        f" WHEN {x} = 0 OR (abs({x}) >= 0.001 AND abs({x}) < 10000000) THEN CAST({x} AS VARCHAR)"
        f" WHEN contains({shown}, 'e') THEN {sign} || {scientific} ELSE {sign} || {moved} END"
    )


def java_text_once(x: str) -> str:
    """The same of an expression that is dear, or long: it is computed and written once."""
    return f"list_transform([{x}], lambda number: {java_text('number')})[1]"
