"""The Messages dialect."""
