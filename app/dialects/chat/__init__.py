"""The chat completions dialect."""
