"""What is served: a tokenizer, templates, formats, a processor and an engine under one name, and how it is loaded."""

from app.models.load import load_model, load_models
from app.models.served import Models, ServedModel

__all__ = ("Models", "ServedModel", "load_model", "load_models")
