"""The completions dialect."""
