"""Benchmark core: syntax-tree primitives over sqlglot."""
