"""Pixtral and Mistral 3: images in rows of patches, each row ended by a token."""
