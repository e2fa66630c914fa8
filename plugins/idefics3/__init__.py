"""Idefics3 and SmolVLM: images in square tiles, and whole."""
