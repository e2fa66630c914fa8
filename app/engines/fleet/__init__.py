"""Many workers as one engine: which of them gets a request, and what happens when it fails."""
