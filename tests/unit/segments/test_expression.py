"""Druid's expression language: what a text means as a tree, and how a text that means nothing is told."""

import pytest

from segments.errors import InvalidExpression
from segments.expression.functions import ARITIES, LAMBDA_FIRST
from segments.expression.parser import parse_expression
from segments.expression.tree import ArrayConstant, Binary, Call, Constant, Identifier, Lambda, Unary, columns_of

A, B, C = Identifier("a"), Identifier("b"), Identifier("c")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", Binary("+", A, Binary("*", B, C))),
        ("(a + b) * c", Binary("*", Binary("+", A, B), C)),
        ("a - b - c", Binary("-", Binary("-", A, B), C)),
        ("a ^ b ^ c", Binary("^", A, Binary("^", B, C))),
        ("a || b && c", Binary("&&", Binary("||", A, B), C)),
        ("!a == b", Binary("==", Unary("!", A), B)),
        ("--a", Unary("-", Unary("-", A))),
        ("-9223372036854775808", Constant(-(2**63))),
        ("1.5e3", Constant(1500.0)),
        ("NULL", Constant(None)),
        (r"'it\'s\u0041\n'", Constant("it'sA\n")),
        (r'"a \"b\""', Identifier('a "b"')),
        ("[1, -2, null]", ArrayConstant((1, -2, None), "LONG")),
        ("[1, 2.0]", ArrayConstant((1, 2.0), "DOUBLE")),
        ("ARRAY<STRING>[]", ArrayConstant((), "STRING")),
        ("<LONG>[1, -2.5, null]", ArrayConstant((1, -2, None), "LONG")),
        ("<DOUBLE>[1]", ArrayConstant((1.0,), "DOUBLE")),
        ("<STRING>['a', 2, 1.0]", ArrayConstant(("a", "2", "1.0"), "STRING")),
        ("a < <LONG>[]", Binary("<", A, ArrayConstant((), "LONG"))),
        ("Upper(a)", Call("upper", (A,))),
        ("map(x -> x + a, b)", Call("map", (Lambda(("x",), Binary("+", Identifier("x"), A)), B))),
    ],
)
def test_a_text_has_the_tree_of_druids_grammar(text: str, tree: object) -> None:
    assert parse_expression(text) == tree


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a +", "at 4: it ends too early"),
        ("(a", "')' is missing"),
        ("a b", "unexpected 'b'"),
        ("a # b", "'#' at 3"),
        ("'open", "at 1 is unknown"),
        ("uper(a)", "did you mean 'upper'"),
        ("upper(a, b)", "upper takes 1 arguments, not 2"),
        ("map(a, b)", "'->' is missing"),
        ("[a]", "holds constants"),
        ("[1, 'a']", "not both"),
        ("9223372036854775808", "beyond 64 bits"),
        ("(" * 300 + "a" + ")" * 300, "nested deeper"),
        ("-" * 300 + "a", "in a row"),
        ("a" + "+a" * 300, "in a row"),
    ],
)
def test_a_text_that_means_nothing_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(InvalidExpression, match="expression") as refused:
        parse_expression(text)
    assert told in str(refused.value)


def test_the_columns_of_an_expression_are_known_without_the_parameters_of_its_lambdas() -> None:
    tree = parse_expression('if(a > 1, filter((x) -> x == b, c), -"d e")')
    assert list(columns_of(tree)) == ["a", "b", "c", "d e"]


def test_every_function_takes_a_sensible_number_of_arguments() -> None:
    assert len(ARITIES) > 120
    assert all(least <= most for least, most in ARITIES.values())
    assert set(ARITIES) >= LAMBDA_FIRST
