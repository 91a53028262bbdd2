"""Tests: what all of them share: the long forms of sampled tests run with `--soak` alone."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the long forms of sampled tests, and these alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    soak = config.getoption("--soak")
    left_out = [item for item in items if bool(item.get_closest_marker("soak")) != soak]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]
