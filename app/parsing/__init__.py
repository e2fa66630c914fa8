"""Output formats as data, and the one machine that runs them."""
