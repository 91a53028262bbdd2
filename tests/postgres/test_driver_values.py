"""Tests: values of the `official` regime are those that the public code's driver really gives."""

import asyncio
import math
from typing import Any

import psycopg2
import pytest

from benchmark_core.grading.driver_values import driver_value
from benchmark_core.postgres.query import Session, connect, run_script
from benchmark_core.postgres.server import Server
from benchmark_core.postgres.wire import as_text

LITERALS = [
    "1::int2",
    "-7::int4",
    "9223372036854775807::int8",
    "4294967295::oid",
    "NULL::int",
    "1.50::numeric",
    "'NaN'::numeric",
    "'Infinity'::numeric",
    "'-Infinity'::numeric",
    "1e40::numeric",
    "0.000001::numeric",
    "-0.0::numeric",
    "1.5::float8",
    "'NaN'::float8",
    "'Infinity'::float8",
    "'-Infinity'::float8",
    "1e308::float8",
    "0.1::float4",
    "-0.0::float8",
    "true",
    "false",
    "NULL::bool",
    "'x'::text",
    "''::text",
    "'ab  '::char(4)",
    "'x'::varchar(3)",
    "'x'::name",
    "'\"'::text",
    "E'a\\nb'::text",
    "date '2031-05-06'",
    "date '0001-01-01'",
    "date '9999-12-31'",
    "date 'infinity'",
    "date '-infinity'",
    "date '0044-03-15 BC'",
    "date '10000-01-01'",
    "timestamp '2031-05-06 07:08:09.123456'",
    "timestamp '2031-05-06'",
    "timestamp 'infinity'",
    "timestamp '-infinity'",
    "timestamp '0044-03-15 BC'",
    "timestamp '2031-05-06 07:08:09.1'",
    "timestamptz '2031-05-06 07:08:09+02'",
    "timestamptz '1900-01-01 00:00:00+00'",
    "timestamptz 'infinity'",
    "timestamptz '-infinity'",
    "time '07:08:09'",
    "time '07:08:09.5'",
    "time '24:00'",
    "timetz '07:08:09+02'",
    "timetz '24:00+00'",
    "interval '1 day'",
    "interval '1 month'",
    "interval '-1 month'",
    "interval '1 year 2 mons 3 days 04:05:06.789'",
    "interval '-00:00:01.5'",
    "interval '100 hours'",
    "interval '0'",
    "interval '-1 year -1 day'",
    "interval '13 mons'",
    "'\\x00ff'::bytea",
    "'{\"a\": [1, 2.50, null]}'::json",
    '\'{"b": 1, "a": 1.0}\'::jsonb',
    "'null'::json",
    "'[1e400]'::json",
    "ARRAY[1, 2]",
    "ARRAY[1.50, NULL]",
    "ARRAY['a', 'b,c', NULL, 'NULL', '\"', E'\\\\']",
    "ARRAY[ARRAY[1, 2], ARRAY[3, 4]]",
    "'{}'::int[]",
    "'[2:3]={1,2}'::int[]",
    "ARRAY[date '2031-05-06']",
    "ARRAY[true, false]",
    "ARRAY[1.5::float8, 'NaN']",
    "ARRAY[interval '1 day']",
    "ARRAY[timestamp '2031-05-06 07:08:09']",
    "gen_random_uuid() IS NULL",
    "'00000000-0000-0000-0000-000000000007'::uuid",
    "'10.0.0.1'::inet",
    "'(1,2)'::point",
    "'1 $'::text",
    "B'101'",
    "'12.5'::money::numeric",
]
OPTIONS = "-c datestyle=ISO,MDY -c intervalstyle=postgres -c timezone=UTC -c extra_float_digits=1"


@pytest.fixture(scope="module")
def texts(embedded: Server) -> dict[str, tuple[Any, int]]:
    """Text and type of each literal, as our own reading has them."""

    async def work() -> dict[str, tuple[Any, int]]:
        async with connect(embedded.dsn) as one, connect(embedded.dsn) as admin:
            session = Session(one, admin, "nobody")
            found = {}
            for literal in LITERALS:
                table = await run_script(session, (f"SELECT {literal}",), 10, 10, as_text)
                found[literal] = (table.rows[0][0], table.types[0])
            return found

    return asyncio.run(work())


@pytest.fixture(scope="module")
def driver(embedded: Server) -> Any:
    connection = psycopg2.connect(embedded.dsn, options=OPTIONS)
    connection.set_client_encoding("UTF8")
    connection.autocommit = True
    yield connection
    connection.close()


def same(left: Any, right: Any) -> bool:
    """Equal, of one type; NaN and NaN too."""
    if isinstance(left, memoryview):
        left = bytes(left)
    if isinstance(right, memoryview):
        right = bytes(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right) or (left != left and right != right)


@pytest.mark.parametrize("literal", LITERALS)
def test_a_value_is_what_the_driver_gives(texts: dict[str, tuple[Any, int]], driver: Any, literal: str) -> None:
    text, oid = texts[literal]
    with driver.cursor() as cursor:
        cursor.execute(f"SELECT {literal}")
        try:
            [theirs] = cursor.fetchone()
        except (ValueError, OverflowError, psycopg2.Error) as error:
            with pytest.raises(ValueError):
                driver_value(text, oid)
            assert error
            return
    ours = driver_value(text, oid)
    assert same(ours, theirs), (ours, theirs)
