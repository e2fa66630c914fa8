"""The public API shapes: a request to a conversation, and derendered steps to that API's events and reply.

Each dialect is a package: ``read`` (request to ``RenderInput``), ``write`` (steps to events, and their ``fold``) and
``derender``, the whole of its derender endpoint::

    app.dialects.chat.derender.derender(ChatDerenderRequest, model, seal, now=…) -> ChatCompletion | ChatDerendered
    app.dialects.completions.derender.derender(CompletionsDerenderRequest, …) -> Completion | CompletionDerendered
    app.dialects.responses.derender.derender(ResponsesDerenderRequest, …) -> Response | EventsDerendered
    app.dialects.messages.derender.derender(MessagesDerenderRequest, …) -> MessageReply | EventsDerendered

The requests are Structs of :mod:`app.protocol.derender`, ``model`` is the ``ServedModel``, ``seal`` one
:class:`app.derendering.stream_state.StateSeal` of the server's ``state_key``, ``now`` the time in Unix seconds.
"""
