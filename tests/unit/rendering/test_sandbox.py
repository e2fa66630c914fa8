"""Templates mean what they mean in transformers, and cost no more than they may (B60)."""

import asyncio
import threading
import time
from datetime import datetime

import pytest

from app.errors import InvalidRequest, StartupError
from app.rendering.budget import Budget, RenderTooLong
from app.rendering.template import ChatTemplate, clock
from app.rendering.templates import ChatTemplates
from tests.unit.rendering.at_hand import conversation, renderer, written

HUGE = 10**9


def nested(body: str) -> str:
    loops = "".join(f"{{% for {name} in range(999) %}}" for name in "abc")
    return loops + body + "{% endfor %}" * 3


def growing(start: str, step: str) -> str:
    """``ns.x`` grown sixty times."""
    head = f"{{% set ns = namespace(x={start}) %}}{{% for i in range(60) %}}"
    return head + (step if "{%" in step else f"{{% set ns.x = {step} %}}") + "{% endfor %}"


def keeping(value: str) -> str:
    """A linked list of 99,999 values."""
    head = "{% set ns = namespace(l=none) %}{% set big = 'a' * 1000000 %}{% for i in range(99999) %}"
    return head + f"{{% set ns.l = [ns.l, {value}] %}}{{% endfor %}}"


BOMBS = {
    "nested loops": nested(""),
    "nested loops that write": nested("x"),
    "repeated text": f"{{{{ 'a' * {HUGE} }}}}",
    "repeated list": f"{{{{ ([0] * {HUGE})|length }}}}",
    "large range": f"{{{{ range({HUGE})|list }}}}",
    "doubling": growing("'a' * 99", "ns.x + ns.x"),
    "doubling by tilde": growing("'a' * 99", "ns.x ~ ns.x"),
    "doubling by block": growing("'a'", "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"),
    "doubling lists": growing("[1, 2, 3]", "ns.x + ns.x"),
    "doubling by replace": growing("'aa'", "ns.x.replace('a', 'aa')"),
    "doubling by join": growing("'aa'", "[ns.x, ns.x]|join"),
    "doubling by str.join": growing("'aa'", "''.join([ns.x, ns.x])"),
    "slices kept": keeping("big[1:]"),
    "lists kept": keeping("range(99999)|list"),
    "padded": f"{{{{ 'a'.ljust({HUGE}) }}}}",
    "padded by filter": f"{{{{ 'a'|center({HUGE}) }}}}",
    "padded by format": f"{{{{ '%{HUGE}d' % 1 }}}}",
    "padded by str.format": f"{{{{ '{{:>{HUGE}}}'.format(1) }}}}",
    "padded by nested format": f"{{{{ '{{:>{{}}}}'.format(1, {HUGE}) }}}}",
    "tabs": f"{{{{ ('\\t' * 1000).expandtabs(tabsize={HUGE}) }}}}",
    "indented": f"{{{{ ('a\\n' * 1000)|indent({HUGE}) }}}}",
    "bytes": f"{{{{ (5).to_bytes(length={HUGE}, byteorder='big')|length }}}}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "factors": growing("9", "ns.x * ns.x"),
    "macro without end": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "macro that branches": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "many slices": f"{{% for x in [1]|slice({HUGE}) %}}{{% endfor %}}",
    "deep indent": f"{{{{ {{'a': [1]}}|tojson(indent={HUGE}) }}}}",
    "large output": "{% set big = 'a' * 4000000 %}{% for i in range(9999) %}{{ big }}{% endfor %}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_a_refusal(name: str) -> None:
    server = renderer(trust=True, template_timeout_s=20)
    with pytest.raises(InvalidRequest) as caught:
        written(server, conversation(("user", "hi")), chat_template=BOMBS[name])
    assert caught.value.message


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_in_the_models_own_template_leaves_the_loop(name: str) -> None:
    with pytest.raises((InvalidRequest, RenderTooLong)):
        ChatTemplate(BOMBS[name]).render({"messages": []}, Budget(seconds=0, inline=True))


def test_a_filter_that_never_returns_is_ended() -> None:
    """Pure Python without a loop turn of the template's own: only the watchdog sees it."""
    template = "{{ ('a b ' * 300000)|wordwrap(1)|wordwrap(2)|wordwrap(3) }}" * 40
    server = renderer(trust=True, template_timeout_s=0.2)
    with pytest.raises(InvalidRequest):
        written(server, conversation(("user", "hi")), chat_template=template)


def test_others_are_served_while_a_template_burns() -> None:
    server = renderer(trust=True)

    async def both() -> list[str]:
        from app.rendering.request import RenderInput, TemplateOptions

        order: list[str] = []
        bomb = RenderInput(
            dialect="chat",
            request_id="bomb",
            conversation=conversation(("user", "hi")),
            template=TemplateOptions(chat_template=BOMBS["nested loops"]),
        )

        async def burn() -> None:
            with pytest.raises(InvalidRequest):
                await server.render(bomb)
            order.append("bomb")

        async def short() -> None:
            for _ in range(5):
                await asyncio.sleep(0)
                await server.render(
                    RenderInput(dialect="chat", request_id="s", conversation=conversation(("user", "hi")))
                )
            order.append("short")

        await asyncio.gather(burn(), short())
        return order

    assert asyncio.run(both()) == ["short", "bomb"]


def test_long_conversations_are_written_and_encoded_off_the_event_loop() -> None:
    server = renderer(max_model_len=10**6)
    main = threading.current_thread().name
    written(server, conversation(("user", "hi")))
    assert server.tokenizer.threads == {main}  # type: ignore[attr-defined]
    server.tokenizer.threads.clear()  # type: ignore[attr-defined]
    written(server, conversation(("user", "word " * 20_000)))
    written(server, conversation(*[("user", "hi"), ("assistant", "yo")] * 400))
    assert server.tokenizer.threads and main not in server.tokenizer.threads  # type: ignore[attr-defined]


def test_a_template_that_outgrows_the_loop_is_rendered_in_a_thread() -> None:
    slow = "{% for i in range(90000) %}{% endfor %}{{ messages[0].content }}"
    with pytest.raises(RenderTooLong):
        ChatTemplate(slow * 20).render({"messages": [{"content": "x"}]}, Budget(seconds=0, inline=True))
    assert written(renderer(slow * 20), conversation(("user", "ab"))) == "ab" * 20


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% if true %}\n  a\n{% endif %}\nb", "  a\nb"),
        ("  {% if true %}a{% endif %}", "a"),
        ("{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "012"),
        ("{% for i in range(4) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "023"),
        ("a{% generation %}b{% endgeneration %}c", "abc"),
        ("{{ {'ü': '<&>', 'b': [1, 2.0, none]} | tojson }}", '{"ü": "<&>", "b": [1, 2.0, null]}'),
        ("{{ {'b': 1, 'a': 'é'} | tojson(ensure_ascii=True, sort_keys=True) }}", '{"a": "\\u00e9", "b": 1}'),
        ("{{ {'a': 1} | tojson(indent=2) }}", '{\n  "a": 1\n}'),
        ("{{ {'a': [1, 2]} | tojson(separators=(',', ':')) }}", '{"a":[1,2]}'),
        ("{{ strftime_now('%d %b %Y') }}", "29 Nov 2026"),
        ("{{ nothing is defined }} {{ tools is none }} {{ documents is none }}", "False True True"),
        ("{{ 1 + 2 }} {{ 'a' + 'b' + 'c' }} {{ [1] + [2] }} {{ 'a' ~ 1 ~ none }}", "3 abc [1, 2] a1None"),
        ("{{ 'x'.join(['a', 'b']) }} {{ ' a '.strip() }} {{ 'a-b'.split('-')[1:] }}", "axb a ['b']"),
        ("{{ {'a': 1}.get('b', 2) }} {{ {'items': 1}['items'] }} {{ {'k': 1}.k }}", "2 1 1"),
        ("{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{{ ns.a }} {{ ns.b is defined }}", "2 False"),
        ("{{ '%s-%d' % ('a', 3) }} {{ '{}-{x}'.format('a', x=2) }} {{ 2 ** 10 }} {{ 'ab' * 2 }}", "a-3 a-2 1024 abab"),
        (
            "{% macro f(x) %}<{{ x }}{{ caller() if caller }}>{% endmacro %}{{ f(1) }}{% call f(2) %}c{% endcall %}",
            "<1><2c>",
        ),
        ("a{{ '{0.__class__}'.format(messages) }}b", "ab"),
        ("{{ messages[0].content[::-1] }} {{ messages | map(attribute='role') | join(',') }}", "cba user"),
    ],
)
def test_the_environment_is_that_of_chat_templates(template: str, text: str) -> None:
    assert written(renderer(template), conversation(("user", "abc"))) == text


def test_the_template_refuses_in_its_own_words() -> None:
    with pytest.raises(InvalidRequest) as caught:
        written(renderer("{{ raise_exception('boo ' + messages[0].role) }}"), conversation(("user", "a")))
    assert caught.value.message == "boo user"


@pytest.mark.parametrize("broken", ["{% if %}", "{{ 1 +", "{% for %}{% endfor %}", "{% nope %}", "{{ 'a'|nofilter }}"])
def test_a_broken_template_stops_start_up_and_is_a_bad_request(broken: str) -> None:
    with pytest.raises(StartupError):
        ChatTemplates({"default": broken})
    with pytest.raises(InvalidRequest) as caught:
        written(renderer(trust=True), conversation(("user", "a")), chat_template=broken)
    assert caught.value.param == "chat_template"


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ ().__class__ }}{{ messages.__init__.__globals__ }}",
        "{% include 'x' %}",
        "{% import 'os' as os %}",
        "{{ undefined_function() }}",
        "{{ 1 // 0 }}",
        "{{ 'a' + 1 }}",
    ],
)
def test_what_the_sandbox_forbids_is_a_bad_request(template: str) -> None:
    message = {"role": "user"}
    with pytest.raises(InvalidRequest):
        written(renderer(template + "!"), conversation(("user", "a")))
    assert message == {"role": "user"}


def test_the_date_is_pinned_or_todays() -> None:
    assert clock("2024-02-29")() == datetime(2024, 2, 29)
    assert abs(clock("")().timestamp() - time.time()) < 60


def test_a_source_is_bounded() -> None:
    with pytest.raises(InvalidRequest):
        ChatTemplate("a" * 2_000_000)
    with pytest.raises(InvalidRequest):
        ChatTemplate("{{" + "(" * 5000 + "1" + ")" * 5000 + "}}")
