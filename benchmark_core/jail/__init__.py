"""Benchmark core: where test cases, which are hostile code, may run."""
