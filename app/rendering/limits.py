"""Bounds and counts that a request must keep to; sources: vLLM 0.33's own (its wire protocol, appendix C)."""

__all__ = (
    "EFFORTS",
    "INCLUDES",
    "INT64",
    "LEAST_THINKING_BUDGET",
    "MAX_ALLOWED_TOKEN_IDS",
    "MAX_BAD_WORDS",
    "MAX_BAD_WORD_CHARACTERS",
    "MAX_BIASES",
    "MAX_CACHE_SALT",
    "MAX_CHOICES",
    "MAX_LOGPROB_TOKEN_IDS",
    "MAX_METADATA",
    "MAX_PROMPTS",
    "MAX_REQUEST_ID",
    "MAX_STOP_CHARACTERS",
    "MAX_STOP_STRINGS",
    "MAX_STOP_TOKEN_IDS",
    "MAX_TOOLS",
    "TOKEN_IDS",
)

MAX_CHOICES = 16_384
"""``n``: choices of one prompt."""

MAX_PROMPTS = 1_024
"""Prompts in one completions request."""

MAX_STOP_STRINGS = 4

MAX_TOOLS = 2_048
"""Functions of one request; OpenAI takes 128."""

MAX_STOP_CHARACTERS = 1_024
"""Of one stop string: as many characters of output may have to be held back and compared (ours; vLLM has no bound)."""

MAX_STOP_TOKEN_IDS = 1_024
"""Ours, like the next ones but the count of words."""

MAX_BAD_WORDS = 128

MAX_BAD_WORD_CHARACTERS = 8_192
"""Of all words together, each of which is tokenized twice (vLLM: 1,024 tokens)."""

MAX_BIASES = 8_192
"""Entries of ``logit_bias``."""

MAX_ALLOWED_TOKEN_IDS = 65_536

MAX_LOGPROB_TOKEN_IDS = 128

MAX_CACHE_SALT = 128
"""Characters."""

MAX_REQUEST_ID = 256
"""Characters; ids of engines and of replies are made from it."""

INT64 = range(-(2**63), 2**63)
"""What a signed 64-bit field holds."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Reasoning efforts, least first."""

TOKEN_IDS = range(2**31)
"""What can be a token id of some vocabulary."""

MAX_METADATA = (16, 64, 512)
"""Pairs, characters of a key, characters of a value (OpenAI's)."""

INCLUDES = (
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
)
"""What a Responses request may ask to be included (OpenAI's)."""

LEAST_THINKING_BUDGET = 1_024
"""``thinking.budget_tokens`` of the Messages API (Anthropic's)."""
