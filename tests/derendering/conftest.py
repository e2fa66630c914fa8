"""Machines are loaded and examples vary in size: no example has a time limit."""

from hypothesis import settings

settings.register_profile("derendering", deadline=None)
settings.load_profile("derendering")
