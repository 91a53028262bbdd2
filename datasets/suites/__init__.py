"""Suites: labelled questions, tasks and their digests. Imports nothing of ours."""
