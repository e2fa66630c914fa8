"""A tokenize request to the text or the conversation whose ids are wanted."""

from app.dialects.chat.messages import read_messages, read_tools
from app.dialects.chat.read import check_final_message
from app.errors import InvalidRequest
from app.protocol.tokenize import TokenizeRequest
from app.rendering.conversation import Conversation
from app.rendering.request import RenderInput, TemplateOptions

__all__ = ("read",)


def read(request: TokenizeRequest) -> RenderInput:
    """What to tokenize: ``text`` or ``conversation`` of the result, written as its ``template`` says.

    Text gets the tokenizer's own BOS unless ``add_special_tokens`` is false; a conversation, whose template writes
    its BOS, does not unless it is true. There is no check against the context's length.

    Raises:
        InvalidRequest: neither or both of ``prompt`` and ``messages``, or a wrong value; ``param`` names the field.
    """
    if isinstance(request.prompt, str) == isinstance(request.messages, list):
        raise InvalidRequest("Give `prompt` or `messages`, one of the two.", param="prompt")
    if isinstance(request.prompt, str):
        options = TemplateOptions(add_special_tokens=request.add_special_tokens is not False)
        return RenderInput(
            dialect="completions", request_id="", model=request.model, text=request.prompt, template=options
        )
    tools = read_tools(request.tools) if request.tools else None
    add, continued = check_final_message(request.add_generation_prompt, request.continue_final_message)
    return RenderInput(
        dialect="chat",
        request_id="",
        model=request.model,
        conversation=Conversation(messages=read_messages(request.messages or []), tools=tools),
        template=TemplateOptions(
            add_generation_prompt=add,
            continue_final_message=continued,
            chat_template=request.chat_template,
            kwargs=request.chat_template_kwargs or {},
            add_special_tokens=bool(request.add_special_tokens),
            mm_processor_kwargs=request.mm_processor_kwargs,
            media_io_kwargs=request.media_io_kwargs,
        ),
        tool_choice="auto" if tools else "none",
    )
