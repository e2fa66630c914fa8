"""A RenderInput to the GenerateRequest that every render endpoint answers."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from app.errors import InvalidRequest
from app.parsing.format import ReasoningFormat, ToolFormat
from app.parsing.reasoning_state import ReasoningEnd
from app.protocol.generate import Features, GenerateRequest, ParseContext, ReasoningKwargs
from app.rendering.conversation import Conversation, Media
from app.rendering.encoder import PromptEncoder
from app.rendering.media import MediaEncoder, MediaPrompt, media_of
from app.rendering.normalise import tool_dict
from app.rendering.prompt import LONG_WORK, PromptWriter, WrittenPrompt, in_thread
from app.rendering.provenance import NO_SHIELD, Shield
from app.rendering.request import NamedTool, RenderInput, TemplateOptions
from app.rendering.sampling import resolve
from app.rendering.templates import ChatTemplates
from app.rendering.truncation import droppable, kept_ranges, kept_tokens, shifted, without_oldest
from app.tokenizing.tokenizer import Tokenizer

__all__ = ("Renderer",)


class Renderer:
    """Renders for one served model; one instance serves all requests, on one event loop.

    Args:
        name: the served name, for error texts.
        tokenizer: the model's.
        max_model_len: prompt and output together, in tokens.
        templates: its chat templates; None for a model that has none.
        encoder: a prompt encoder that stands for the templates.
        tool_format, reasoning_format: what reads its outputs; None for none.
        generation_defaults: its ``generation_config.json``.
        chat_template_kwargs: the server's defaults, under a request's own.
        shield: provenance; ``NO_SHIELD`` for a model with ``special_tokens_in_text = "control"``.
        exact: vLLM's prompt even where that is known to be wrong; goes with "control".
        media: how it takes images and videos; None: text only.
        trust_request_mm_kwargs: whether a request may bring ``mm_processor_kwargs`` and ``media_io_kwargs``.
        template_timeout_s: time for one template render, in seconds.
    """

    def __init__(
        self,
        name: str,
        tokenizer: Tokenizer,
        *,
        max_model_len: int,
        templates: ChatTemplates | None = None,
        encoder: PromptEncoder | None = None,
        tool_format: ToolFormat | None = None,
        reasoning_format: ReasoningFormat | None = None,
        generation_defaults: Mapping[str, Any] = {},
        chat_template_kwargs: Mapping[str, Any] = {},
        shield: Shield = NO_SHIELD,
        exact: bool = False,
        media: MediaEncoder | None = None,
        trust_request_mm_kwargs: bool = False,
        template_timeout_s: float = 30,
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.max_model_len = max_model_len
        self.encoder = encoder
        self.tool_format = tool_format
        self.reasoning_format = reasoning_format
        self.reasoning_end = ReasoningEnd(reasoning_format, tokenizer)
        self.generation_defaults = generation_defaults
        self.media = media
        self.trust_request_mm_kwargs = trust_request_mm_kwargs
        placeholder: Callable[[Media], str] | None = media.placeholder if media is not None else None
        self.writer = PromptWriter(
            tokenizer,
            templates=templates,
            encoder=encoder,
            shield=shield,
            default_kwargs=chat_template_kwargs,
            max_model_len=max_model_len,
            template_timeout_s=template_timeout_s,
            placeholder=placeholder,
            exact=exact,
        )

    async def render(self, request: RenderInput) -> GenerateRequest:
        """The prompt's ids with all that generating and derendering need.

        Raises:
            InvalidRequest: an empty conversation; media for a text model; a template that the request may not bring,
                that refuses the conversation, fails or costs too much; ids outside the vocabulary; a prompt that is
                empty, too long for the context or leaves no room; ``param`` names the field.
            BadMedia: an image or video could not be had.
        """
        options = request.template
        features: Features | None = None
        kwargs: dict[str, Any] | None = None
        offsets: list[tuple[int, int]] | None = None
        if request.token_ids is not None:
            ids = self.checked_ids(request)
            if request.conversation is not None:
                kwargs = self.kwargs_of(request.conversation, request)
        elif request.text is not None:
            # A raw prompt is all the caller's own: control tokens in it are control tokens.
            encoded = await self.writer.encode(request.text, options)
            ids, offsets = encoded.ids, encoded.offsets
        else:
            assert request.conversation is not None
            ids, offsets, features, kwargs = await self.prompt(request.conversation, request)
        keep = kept_tokens(options.truncate_prompt_tokens, self.max_model_len)
        if keep is not None and len(ids) > keep:
            first, last = self.wrapping if options.add_special_tokens and request.token_ids is None else (0, 0)
            ranges = kept_ranges(len(ids), keep, options.truncation_side, first=first, last=last)
            features = shifted(features, ranges)
            ids = [token for start, end in ranges for token in ids[start:end]]
            offsets = offsets and [pair for start, end in ranges for pair in offsets[start:end]]
        self.check_length(ids, request)
        if request.long:
            return await in_thread(LONG_WORK, lambda: self.answer(request, ids, offsets, features, kwargs))
        return self.answer(request, ids, offsets, features, kwargs)

    async def prompt(
        self, conversation: Conversation, request: RenderInput
    ) -> tuple[list[int], list[tuple[int, int]] | None, Features | None, dict[str, Any]]:
        """Ids, offsets, features and effective kwargs of a conversation, its oldest items dropped if it asks so."""
        options = request.template
        self.check_media(conversation, options)
        written = await self.writer.write(conversation, options, request.dialect, long=request.long)
        expanded = await self.expand(conversation, written, options)
        if options.drop_oldest_items and len((expanded or written.encoded).ids) >= self.max_model_len:
            growth = expanded.growth if expanded is not None else ()
            conversation, written = await self.shortened(conversation, request, written, growth)
            expanded = await self.expand(conversation, written, options)
        if expanded is None:
            return written.encoded.ids, written.encoded.offsets, None, written.kwargs
        return expanded.ids, expanded.offsets, expanded.features, written.kwargs

    async def expand(
        self, conversation: Conversation, written: WrittenPrompt, options: TemplateOptions
    ) -> MediaPrompt | None:
        """The prompt with its media in it; None where there are none."""
        media = media_of(conversation)
        return await self.media.expand(media, written.encoded, options) if media and self.media is not None else None

    async def shortened(
        self, conversation: Conversation, request: RenderInput, written: WrittenPrompt, growth: Sequence[int]
    ) -> tuple[Conversation, WrittenPrompt]:
        """The longest end of the conversation that leaves room for a token, by bisection.

        ``growth`` is by how many tokens an item's placeholder is longer than what is written for it.
        """
        # By identity: an item's hash would be that of its whole data URL.
        grown = {id(item): tokens for item, tokens in zip(media_of(conversation), growth, strict=bool(growth))}
        places = droppable(conversation.messages)
        best = (conversation, written)
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) // 2
            shorter = Conversation(
                messages=without_oldest(conversation.messages, places[middle]),
                tools=conversation.tools,
                documents=conversation.documents,
            )
            try:
                found = await self.writer.write(shorter, request.template, request.dialect, long=request.long)
            except InvalidRequest:
                # A template may refuse to begin here (with the assistant, say); a later place is tried.
                low = middle + 1
                continue
            length = len(found.encoded.ids) + sum(grown.get(id(item), 0) for item in media_of(shorter))
            if length < self.max_model_len:
                best, high = (shorter, found), middle
            else:
                low = middle + 1
        return best

    def check_media(self, conversation: Conversation, options: TemplateOptions) -> None:
        """Refuse media, and options for them, that are not served here."""
        if not self.trust_request_mm_kwargs:
            for field in ("mm_processor_kwargs", "media_io_kwargs"):
                if getattr(options, field):
                    raise InvalidRequest(
                        f"This server takes no {field} from requests (`trust_request_mm_kwargs`).", param=field
                    )
        if self.media is None:
            for item in media_of(conversation):
                raise InvalidRequest(
                    f"'{self.name}' is a text model and takes no {item.modality}.", param=item.param or "messages"
                )

    def checked_ids(self, request: RenderInput) -> list[int]:
        """The caller's ids, if the vocabulary has them all."""
        ids = request.token_ids or []
        size = self.tokenizer.vocab_size
        if ids and not 0 <= min(ids) <= max(ids) < size:
            raise InvalidRequest(f"Token ids of '{self.name}' are integers from 0 to {size - 1}.", param="prompt")
        return ids

    @cached_property
    def wrapping(self) -> tuple[int, int]:
        """How many special tokens the tokenizer puts before and after a text."""
        bare = self.tokenizer.encode("a").ids
        wrapped = self.tokenizer.encode("a", add_special_tokens=True).ids
        extra = len(wrapped) - len(bare)
        for first in range(extra + 1):
            if wrapped[first : first + len(bare)] == bare:
                return first, extra - first
        return 0, 0

    def check_length(self, ids: list[int], request: RenderInput) -> None:
        """Refuse an empty prompt, and one that is longer than the context."""
        if not ids:
            param = "prompt" if request.conversation is None else "messages"
            raise InvalidRequest("The prompt has no tokens.", param=param)
        if len(ids) > self.max_model_len:
            raise InvalidRequest(
                f"The prompt has {len(ids)} tokens; this model's context has {self.max_model_len}, output included.",
                param="input_tokens",
            )

    def kwargs_of(self, conversation: Conversation, request: RenderInput) -> dict[str, Any]:
        """The effective kwargs of a conversation that is not rendered, as its ids are known."""

        def honours_none() -> bool:
            if self.encoder is not None:
                return self.encoder.honours_no_effort
            templates = self.writer.templates
            return templates is not None and templates.choose(None, has_tools=False).honours_no_effort

        return self.writer.effective_kwargs(conversation, request.template, request.dialect, honours_none)

    def answer(
        self,
        request: RenderInput,
        ids: list[int],
        offsets: list[tuple[int, int]] | None,
        features: Features | None,
        kwargs: dict[str, Any] | None,
    ) -> GenerateRequest:
        """The generate request for a finished prompt; ``kwargs`` None for completions, which are never parsed."""
        sampling = resolve(
            request,
            prompt_len=len(ids),
            max_model_len=self.max_model_len,
            defaults=self.generation_defaults,
            tool_format=self.tool_format,
            reasoning_format=self.reasoning_format,
        )
        ended: bool | None = None
        reasoning_kwargs: ReasoningKwargs | None = None
        context: ParseContext | None = None
        if kwargs is not None:
            if request.dialect != "responses":
                ended = True if not request.include_reasoning else self.reasoning_end.of(ids, kwargs)
            if self.reasoning_format is not None:
                reasoning_kwargs = ReasoningKwargs(chat_template_kwargs=kwargs)
            context = self.parse_context(request, {} if self.encoder is not None else kwargs)
        return GenerateRequest(
            request_id=request.request_id,
            token_ids=ids,
            token_offsets=offsets,
            features=features,
            sampling_params=sampling,
            model=request.model,
            reasoning_ended=ended,
            reasoning_parser_kwargs=reasoning_kwargs,
            return_token_ids=request.return_token_ids,
            parse_context=context,
            stream=request.stream,
            stream_options=request.stream_options,
            cache_salt=request.cache_salt,
            priority=request.priority,
            kv_transfer_params=request.kv_transfer_params,
            ec_transfer_params=request.ec_transfer_params,
        )

    def parse_context(self, request: RenderInput, kwargs: dict[str, Any]) -> ParseContext:
        """What derendering needs of the request, so that the request itself need not be kept."""
        conversation = request.conversation
        assert conversation is not None
        choice: Any = request.tool_choice
        if isinstance(choice, NamedTool):
            choice = {"type": "function", "function": {"name": choice.name}}
        return ParseContext(
            tools=None if conversation.tools is None else [tool_dict(tool) for tool in conversation.tools],
            tool_choice=choice,
            parallel_tool_calls=request.parallel_tool_calls,
            include_reasoning=request.include_reasoning,
            chat_template_kwargs=kwargs,
            history_tool_call_cnt=sum(len(message.tool_calls) for message in conversation.messages),
        )
