"""Coroutine tests run in a loop of their own, which must be empty of tasks when they are over."""

import asyncio
import inspect
from typing import Any

import pytest

HANGS_S = 300
"""A test that takes this long hangs; far more than any needs, since the machine may be busy."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def run() -> Any:
        await asyncio.wait_for(pyfuncitem.obj(**arguments), HANGS_S)
        for _ in range(100):
            left = asyncio.all_tasks() - {asyncio.current_task()}
            if not left:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"tasks are left: {left}")

    asyncio.run(run())
    return True
