# SPDX-License-Identifier: Apache-2.0
"""Tests run their PEs in processes or threads of their own: no test leaves a job to the next."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def pytest_configure(config):
    config.addinivalue_line("markers", "long: left to `./dev long`")


def pytest_report_header():
    import weft

    return f"weft {weft.version()} at {weft._library.library_path()}"


def pytest_sessionfinish(session, exitstatus):
    # CTest shows a run in which a test was skipped as skipped.
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 0 and terminal is not None and terminal.stats.get("skipped"):
        session.exitstatus = 77
