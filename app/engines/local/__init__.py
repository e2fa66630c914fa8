"""The engine in this process: a transformers model and a batch that requests join and leave between steps.

Importing this package imports neither torch nor transformers; :meth:`app.engines.local.engine.LocalEngine.start` does.
"""
