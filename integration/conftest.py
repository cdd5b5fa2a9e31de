"""Fixtures of the integration tests. `bash .ci/run` sets what they need:

DELTA_LOAD_BIN      the binary under test
DELTA_LOAD_GOLDEN   folder of golden tables, one .tar.zst each (test_golden.py)
"""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import readers  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: minutes of work on gigabytes; run by `pytest -m slow`")


def pytest_collection_modifyitems(config, items):
    if config.getoption("-m"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest.fixture(scope="session")
def spark():
    return readers.spark()


@pytest.fixture
def lake(tmp_path):
    """A root for tables, which the target is to make itself."""
    return str(tmp_path / "lake")
