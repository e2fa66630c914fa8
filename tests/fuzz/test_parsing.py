"""A short hunt with a fixed seed; ```make fuzz`` is the long one."""

import os
import random

import pytest

from tests.fuzz.parsing import hunt


def test_mutated_outputs_keep_the_laws():
    done, findings = hunt(rounds=2000, seed=3)
    assert done >= 2000
    assert not findings, "\n".join(findings)


@pytest.mark.slow
@pytest.mark.skipif("ISTHMUS_FUZZ_MINUTES" not in os.environ, reason="the long hunt: make fuzz")
def test_fuzz_parsing():
    seed = random.randrange(1 << 32)
    done, findings = hunt(seconds=60 * float(os.environ["ISTHMUS_FUZZ_MINUTES"]), seed=seed)
    assert done
    assert not findings, f"seed {seed}\n" + "\n".join(findings)
