"""Simulators: simulated users. Share no code with the judge."""
