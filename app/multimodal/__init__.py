"""Media references to features: fetch, decode, hash, process, and the wire codec of processed items."""
