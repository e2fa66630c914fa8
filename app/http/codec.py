"""Request bodies straight into their structs, and replies straight into bytes."""

import inspect
from collections.abc import Generator, Iterable
from typing import Any, ClassVar, TypeVar, cast

import msgspec
from litestar import Request, Response
from litestar._openapi.schema_generation.plugins.struct import StructSchemaPlugin
from litestar.dto import AbstractDTO, DTOConfig, DTOFieldDefinition
from litestar.exceptions import HTTPException
from litestar.openapi.spec import Example, Schema
from litestar.params import Body
from litestar.plugins import OpenAPISchemaPlugin

from app.errors import InvalidRequest
from app.http.exchange import exchange_of
from app.http.large import decode_large, is_large
from app.multimodal.encoded import EncodedItem
from app.rendering.prompt import LONG_WORK, in_thread

__all__ = (
    "MSGPACK",
    "MSGPACK_TYPES",
    "TAKES_MSGPACK",
    "JsonRequest",
    "StructDTO",
    "StructDocs",
    "UnsupportedMediaType",
    "content_type",
    "decode",
    "encode",
    "json_body",
    "read_body",
    "readable",
    "reply",
)

T = TypeVar("T")
encode = msgspec.json.Encoder(enc_hook=EncodedItem.to_json).encode
BOM, GZIP = b"\xef\xbb\xbf", b"\x1f\x8b"
"""How some clients begin a UTF-8 text, and how gzip does."""
ANYTHING = Schema()
MSGPACK = b"application/msgpack"
TAKES_MSGPACK = {"takes_msgpack": True}
"""Route option: a body may be msgpack."""
MSGPACK_TYPES = frozenset({MSGPACK, b"application/x-msgpack", b"application/vnd.msgpack"})


def reply(value: Any, *, status: int = 200) -> Response[Any]:
    """A JSON reply encoded once, past Litestar's serialisation; annotate the handler ``-> Response[ItsStruct]``."""
    return Response(encode(value), status_code=status, media_type="application/json")


def json_body(example: dict[str, Any]) -> Any:
    """The annotation of a handler's ``data``: a JSON body, with an example that the docs page offers."""
    return Body(media_type="application/json", examples=[Example(value=example)])


class UnsupportedMediaType(HTTPException):
    """The body is no JSON by its own account, or a compressed one."""

    status_code = 415
    detail = "Only application/json is taken."


def decode(decoder: msgspec.json.Decoder[Any], headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Any:
    """A JSON body as the decoder's type.

    Raises:
        UnsupportedMediaType, InvalidRequest: as :func:`readable` does.
        msgspec.DecodeError: it is no JSON, or not of this shape.
    """
    return decoder.decode(readable(headers, body))


def readable(headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    """A body that may be JSON, without a byte order mark.

    Raises:
        UnsupportedMediaType: the body says it is something else (one that says nothing is JSON), or is compressed.
        InvalidRequest: there is no body.
    """
    kind = content_type(headers)
    if kind and kind != b"application/json" and not kind.endswith(b"+json"):
        raise UnsupportedMediaType()
    if not body or body.isspace():
        raise InvalidRequest("The body is empty; a JSON object is needed.")
    if body.startswith(GZIP):
        raise UnsupportedMediaType("Compressed bodies are not taken; send the JSON as it is.")
    return body.removeprefix(BOM)


def content_type(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The body's media type, lower case and without parameters; empty where the request says none."""
    for name, value in headers:
        if name == b"content-type":
            return value.partition(b";")[0].strip().lower()
    return b""


async def read_body(receive: Any) -> bytes:
    """A request's whole body."""
    message = await receive()
    if not message.get("more_body"):
        return cast("bytes", message.get("body", b""))
    parts = [message.get("body", b"")]
    while message.get("more_body"):
        message = await receive()
        parts.append(message.get("body", b""))
    return b"".join(parts)


class JsonRequest(Request[Any, Any, Any]):
    """A request whose large body is decoded in a thread as soon as it is there; :class:`StructDTO` finds it done."""

    async def body(self) -> bytes:
        """See :meth:`litestar.Request.body`."""
        body = await super().body()
        exchange, handler, headers = exchange_of(self.scope), self.route_handler, self.scope["headers"]
        if exchange.large or not is_large(body):
            return body
        exchange.large = True
        kind = StructDTO.kinds.get(handler.handler_id)
        packed = "takes_msgpack" in handler.opt and content_type(headers) in MSGPACK_TYPES
        if kind is not None and not packed:
            exchange.decoded = await in_thread(LONG_WORK, lambda: decode_large(kind, readable(headers, body)))
        return body


class StructDTO(AbstractDTO[T]):
    """Decode a handler's ``data`` straight into its struct: one pass instead of dicts, then convert.

    A handler with the option :data:`TAKES_MSGPACK` takes msgpack too, by the request's content type.
    """

    config = DTOConfig()
    kinds: ClassVar[dict[str, Any]] = {}
    decoders: ClassVar[dict[str, msgspec.json.Decoder[Any]]] = {}
    packed_decoders: ClassVar[dict[str, msgspec.msgpack.Decoder[Any]]] = {}

    @classmethod
    def generate_field_definitions(cls, model_type: type[Any]) -> Generator[DTOFieldDefinition, None, None]:
        """No fields of its own: the struct is taken as it is."""
        yield from ()

    @classmethod
    def detect_nested_field(cls, field_definition: Any) -> bool:
        """Nothing is taken apart."""
        return False

    @classmethod
    def is_supported_model_type_field(cls, field_definition: Any) -> bool:
        """Whatever msgspec decodes."""
        return True

    @classmethod
    def create_for_field_definition(cls, field_definition: Any, handler_id: str, backend_cls: Any = None) -> None:
        """Make the handler's decoder once, when the app is built."""
        if field_definition.name == "data":
            cls.kinds[handler_id] = field_definition.annotation
            cls.decoders[handler_id] = msgspec.json.Decoder(field_definition.annotation)
            cls.packed_decoders[handler_id] = msgspec.msgpack.Decoder(field_definition.annotation)

    @classmethod
    def create_openapi_schema(cls, field_definition: Any, handler_id: str, schema_creator: Any) -> Any:
        """The struct's own schema."""
        return schema_creator.for_field_definition(field_definition)

    def decode_bytes(self, value: bytes) -> Any:
        """The body as the struct; msgspec's errors reach the exception handlers unchanged."""
        handler, headers = self.asgi_connection.route_handler, self.asgi_connection.scope["headers"]
        decoded = exchange_of(self.asgi_connection.scope).decoded
        if decoded is not None:
            return decoded
        if "takes_msgpack" in handler.opt and content_type(headers) in MSGPACK_TYPES:
            return self.packed_decoders[handler.handler_id].decode(value)
        return decode(self.decoders[handler.handler_id], headers, value)


class StructDocs(OpenAPISchemaPlugin):
    """Struct docstrings and closed objects into OpenAPI, which Litestar's own plugin leaves out."""

    def __init__(self) -> None:
        self.inner = StructSchemaPlugin()

    def is_plugin_supported_field(self, field_definition: Any) -> bool:
        """All that Litestar's plugin supports."""
        return self.inner.is_plugin_supported_field(field_definition)

    def to_openapi_schema(self, field_definition: Any, schema_creator: Any) -> Schema:
        """Its schema, with what it leaves out."""
        schema = self.inner.to_openapi_schema(field_definition, schema_creator)
        struct = field_definition.type_
        for entry in (schema.properties or {}).values():
            if isinstance(entry, Schema) and entry.one_of and ANYTHING in entry.one_of:
                entry.one_of = None  # whatever may be null too: null is one of two, then
        schema.description = schema.description or inspect.getdoc(struct)
        if getattr(struct, "__struct_config__", None) and struct.__struct_config__.forbid_unknown_fields:
            schema.additional_properties = False
        return schema
