"""Unit: names and constants of SQL."""

from hypothesis import given
from hypothesis import strategies as st

from benchmark_core.sql.identifiers import constants, identifiers

SCHEMA = """
-- the rider's file
CREATE TABLE IF NOT EXISTS "public"."bookings" (
    id int PRIMARY KEY, "Fare Amount" numeric(8,2) CHECK (id > 0), date date,
    CONSTRAINT positive CHECK (id > 1), FOREIGN KEY (rider_id) REFERENCES riders(id));
First 3 rows: 'a
CREATE TYPE mood AS ENUM ('sad'); CREATE OR REPLACE VIEW daily AS SELECT 1;
"""
SQL = (
    "WITH hot AS (SELECT b.fare AS total_fare FROM bookings b JOIN riders r ON r.id = b.rider_id"
    " WHERE lower(b.note) = 'x' AND EXTRACT(YEAR FROM booked_at) = 2024) SELECT count(*), h.name FROM hot h"
)


def test_names() -> None:
    found = identifiers([SQL], SCHEMA)
    assert {"bookings", "riders"} <= found.tables
    assert {"id", "Fare Amount", "date", "fare", "rider_id", "note", "name"} <= found.columns
    assert not {"lower", "count", "YEAR", "CONSTRAINT", "positive"} & found.all
    assert found.routines == {"mood", "daily"}
    assert found.ctes == {"hot"}
    assert "total_fare" in found.aliases


def test_a_date_field_of_a_known_column_names_no_table() -> None:
    found = identifiers(["SELECT EXTRACT(YEAR FROM booked_at)"], "CREATE TABLE bookings (booked_at date)")
    assert found.tables == {"bookings"}


def test_a_schema_without_sql_has_no_names() -> None:
    assert not identifiers([], "").all
    assert not identifiers(["it's"], "no statements here").all


def test_a_statement_adds_nothing_to_the_schema_of_the_next() -> None:
    before = identifiers([], SCHEMA)
    assert "riders" in identifiers([SQL], SCHEMA).tables - before.tables
    assert identifiers([], SCHEMA) == before


def test_constants_with_bodies() -> None:
    found = constants(["SELECT 'It''s', 3.50, -2 FROM t -- 9", "DO $$ BEGIN PERFORM 'q', 7; END $$", "it's"])
    assert found.strings == {"It's", "q"}
    assert found.numbers == {"3.50", "2", "7"}


@given(st.text(), st.text())
def test_any_text_is_read_without_an_error(statement: str, schema: str) -> None:
    identifiers([statement], "CREATE TABLE " + schema)
    constants([statement])
