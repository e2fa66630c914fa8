"""Texts on which two tokenizers must agree before one stands in for the other."""

__all__ = ("PROBES",)

PROBES: tuple[str, ...] = (
    "",
    "Hello, world!",
    " leading and trailing ",
    "  two   three    four spaces\t\ttabs\t \n",
    "\n\n\nlines\r\n\r\nmore\r\n \n\t\n",
    "don't we'll I'M they'RE O'Neill's 'quoted'",
    "0 12 345 6789 1234567890 3.14159 1,000,000 0x1F 1e-9 ½ ²³ ٣٤٥",
    "CamelCase snake_case kebab-case SCREAMING_CASE path/to/file.py https://example.org/?q=a&b=%20#x",
    "def f(x: int) -> str:\n    return {'a': [1, 2], \"b\": None}[x]  # comment\n\n\tif (a && b || !c) { d++; }\n",
    '{"name": "get_weather", "arguments": {"city": "Zürich", "days": [1, 2, 3], "ok": true, "none": null}}',
    '<div class="a">&lt;tag&gt; <br/> </div> <|not_a_token|> [NOT] </s <s',
    "naïve façade Ångström Straße Ελληνικά Кириллица עברית العربية हिन्दी ไทย Tiếng Việt",
    "e\u0301 n\u0303 \u212b \ufb01 \u1e9b\u0323 a\u0300\u0301\u0302 \u1100\u1161\u11a8",
    "中文字符，日本語のテキスト、한국어 문장。全角　スペース ｆｕｌｌ ｗｉｄｔｈ",
    "🙂 👩‍👩‍👧‍👦 🇨🇭 ✊🏽 🏴󠁧󠁢󠁥󠁮󠁧󠁿 \u2764\ufe0f ☃",
    "\u200b\u200d\ufeff\u00a0\u2028\u2029\u3000\u0085 \x00\x01\x1b[0m \x7f \ufffd \uffff \U0010ffff",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "----====____****....,,,,;;;;::::!!!!????((((((]]]]]]}}}}}}\\\\\\\\^^^^~~~~``````",
    "$\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}$ ∑∏√∞≈≠≤≥ αβγδ",
    "▁under ▁▁ Ġbyte Ċ <0x0A> <unk> <pad> ## ##ing ĠĠ",
    "The quick brown fox jumps over the lazy dog. " * 8,
    "多くの人々が" * 12 + "end of it",
    "   \n   \n      indented\n        more\n\n\n\n    ",
    "a\nb\n\nc \nd\n e\t\nf\r\ng",
)
