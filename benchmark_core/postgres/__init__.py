"""Benchmark core: the only package that imports psycopg."""
