"""Benchmark core: grading of submissions."""
