"""Conversation to GenerateRequest: template, provenance, encoding, truncation, sampling, constraints."""
