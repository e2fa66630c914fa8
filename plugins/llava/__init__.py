"""LLaVA 1.5 and LLaVA-NeXT: CLIP pictures, whole or in tiles."""
