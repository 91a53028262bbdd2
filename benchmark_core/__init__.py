"""Benchmark core: ports, chat client, SQL primitives, PostgreSQL. Knows suites; knows no simulator and no judge."""
