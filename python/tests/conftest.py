"""Fixtures of all tests."""

import numpy as np
import pytest

import layernorm


@pytest.fixture(autouse=True)
def settings():
    """Restores the default settings before every test."""
    yield
    layernorm.set_num_threads(None)
    layernorm.set_isa(None)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def dtypes():
    names = [np.float16, np.float32, np.float64]
    try:
        import ml_dtypes

        names.append(ml_dtypes.bfloat16)
    except ImportError:
        names.append(pytest.param(None, marks=pytest.mark.skip(reason="ml_dtypes is missing: no bfloat16")))
    return names
