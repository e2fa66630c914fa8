"""Wire shapes as msgspec Structs, without behaviour."""
