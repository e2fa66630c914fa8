"""Ling 3: GLM 4.7's calls and thinking."""

import msgspec

from plugins.glm.formats import GLM47, GLM47_REASONING, GLM_CONSTRAINTS

__all__ = ("LING3", "LING3_REASONING")

LING3 = msgspec.structs.replace(GLM47, name="ling3", constraints=GLM_CONSTRAINTS, signature=())
LING3_REASONING = msgspec.structs.replace(GLM47_REASONING, name="ling3", signature=())
