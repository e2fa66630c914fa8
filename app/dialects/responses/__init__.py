"""The Responses dialect."""
