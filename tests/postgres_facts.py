"""Tests: what lies on a PostgreSQL server, seen apart from the code under test."""

import psycopg


def names(dsn: str, *prefixes: str) -> set[str]:
    """Databases and roles whose name begins with one of `prefixes`."""
    query = "SELECT datname FROM pg_database UNION SELECT rolname FROM pg_roles"
    with psycopg.connect(dsn, client_encoding="utf8") as connection:
        return {name for (name,) in connection.execute(query) if name.startswith(prefixes)}


TEMPLATES, TRIALS = ("usg_t_", "usg_o_"), ("usg_x_",)
