"""What `make bench` measures: ours, and vLLM's render servers beside it in the same run where they are installed."""
