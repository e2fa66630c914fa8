"""Gemma 3: every image is one square of 256 soft tokens."""
