"""Work in a thread is ended in time, and the thread is as good as new afterwards."""

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.errors import InvalidRequest
from app.rendering.budget import OutOfBudget
from app.rendering.deadline import within


def forever() -> None:
    while True:
        pass


def refused() -> None:
    try:
        forever()
    except OutOfBudget as error:
        raise InvalidRequest("refused") from error


def busy(seconds: float) -> int:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return 1


def test_work_that_ends_gives_its_value_or_its_error() -> None:
    assert within(30, lambda: 7) == 7
    with pytest.raises(KeyError):
        within(30, lambda: {}["a"])


def test_work_that_does_not_end_is_ended() -> None:
    with pytest.raises(OutOfBudget):
        within(0.02, forever)
    with pytest.raises(InvalidRequest):
        within(0.02, refused)


def test_nothing_that_a_thread_does_later_is_hit() -> None:
    with ThreadPoolExecutor(1) as pool:
        for _ in range(60):
            with contextlib.suppress(OutOfBudget):
                assert pool.submit(within, 0.003, lambda: busy(0.003)).result() == 1
            assert pool.submit(sum, range(2000)).result() == 1_999_000
        assert pool.submit(threading.current_thread).result().is_alive()
