"""Poolside v1: GLM's calls; thinking that the prompt opens."""

import msgspec

from plugins.deepseek.formats import DEEPSEEK_V3_REASONING
from plugins.glm.formats import GLM45, GLM_CONSTRAINTS

__all__ = ("POOLSIDE_V1", "POOLSIDE_V1_REASONING")

POOLSIDE_V1 = msgspec.structs.replace(GLM45, name="poolside_v1", constraints=GLM_CONSTRAINTS, signature=())
POOLSIDE_V1_REASONING = msgspec.structs.replace(DEEPSEEK_V3_REASONING, name="poolside_v1", signature=())
