"""Token ids to deltas: detokenisation, stop strings, parsing, logprobs and stream state, for every dialect."""
