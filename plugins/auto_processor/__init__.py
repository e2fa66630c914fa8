"""Any model with a transformers processor, chosen by ``processor = "transformers"``."""
