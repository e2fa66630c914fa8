"""gpt-oss: the Harmony prompt format."""
