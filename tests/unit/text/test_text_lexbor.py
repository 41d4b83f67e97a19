"""The kernel's tokens against those of lexbor, a full HTML parser."""

import pytest

from tests.fixtures.long_cases import mostly_long
from tests.reference.lexbor import DATA, KNOWN_DIFFERENCES, compare, equal_share, kernel_tokens, lexbor_tokens

SAME = [
    "a<b>b</b>c",
    "<p>wo\0rd</p>",
    "a<select><div>x</div><b>y</b></select>",
    "<table>foo<tr><td>bar</table>",
    "<svg><title>t</title><text>x y</text><![CDATA[a b]]></svg>",
    "<svg><style>a b</style></svg>z",
    "<svg><title>icon</svg><p>the article",
    "<svg><title>icon</title><p>the article",
    "<svg><style>.a { b: c }<p>the article",
    "<svg><style>.a { b: c }</svg>the article",
    "<svg><noscript>x<p>the article",
    "<svg><iframe>x</svg><p>the article",
    "<svg><script>var a</svg><p>the article",
    "<svg><script>x < y</script>z</svg>",
    "<svg><noembed>x<div>the article</div>",
    "<svg><textarea>x <b>y</b>",
    "<svg><xmp>x<p>y",
    "<svg><plaintext>x</svg><p>y",
    "<svg><style/>x</svg>y",
    "<svg><title/>x</svg>y",
    "<svg><template>x<p>y",
    "<math><style>x<p>the article",
    "<math><title>x</math>y",
    "<math><mi><style><b>x</style>y</mi></math>z",
    "<math><mtext><p>x</p></mtext></math>y",
    "<svg><foreignObject><style><p>x</style><p>y</p></foreignObject><style>z</style></svg>w",
    "<svg><desc><title><p>x</title>y</desc></svg>z",
    "<svg><title><b>x</b></title>y</svg>z",
    "<svg><svg></svg><style>x</svg>y",
    "<a href=x><svg><path></a><style><p></style>y",
    "<svg><a>x</a> <style>y</style>z</svg>",
    "<svg><style><style>x</style>y</style>z</svg>",
    "<div><svg><path></div><style><p>x</style>y",
    "<svg></p><style><p>x</style>y",
    "<svg></br><style><p>x</style>y",
    "<svg><article>x</article><style>y<article>z",
    "<svg><desc><![CDATA[x]]></desc></svg>",
    "<textarea>\nx&amp;y</textarea>",
    "<iframe>a<b></iframe>c",
    "<script><!--<script></script>--></script>x",
    "<script><!--<script></script>x",
    "<script><!--></script>x",
    "<script><!-- a --></script>x",
    "x<plaintext>a</plaintext>b&amp;",
    "<p>&notit; &ampx &#128; caf&eacute; &NotEqualTilde; &#xD800; &#x110000; &fjlig;</p>",
    "<template>a<template>b</template>c</template>d",
    "<xmp>a&amp;b<i></xmp>c",
    "<p title=a>b>c",
    "<a href='x>y'>z</a>",
    '<a b="c"d=">"e>z</a>',
    '<a b=c">"d>z</a>',
    '<a ="b>c">d</a>',
    "<select><style>x</style><option>y</select>z",
    "a</p>b<br/>c</br>d",
    "<math><mi>x</mi><mtext><b>y</b></mtext></math>",
    "soft\u00adhyphen",
    "<title>a<title>b</title>c",
    "<svg><p>a<![CDATA[x]]>",
    "</>a</ b>c<!>d<?x>e",
    "a<!-->b<!--->c<!---->d<!-- --!>e<!--x",
    "a<wbr>b<image>c",
    "<DIV>A</DIV>B",
    "a<xmp/>b<p>c",
    "<textarea/>a<b>c",
    "a<b",
    "a<b c='",
]


@pytest.mark.parametrize("page", SAME)
def test_tokens_of_odd_markup_are_those_of_lexbor(page: str) -> None:
    assert kernel_tokens(page.encode()) == lexbor_tokens(page.encode())


@pytest.mark.parametrize("page", KNOWN_DIFFERENCES)
def test_the_known_differences_are_still_differences(page: str) -> None:
    assert kernel_tokens(page.encode()) != lexbor_tokens(page.encode())


def test_the_share_of_equal_tokens_falls_with_every_differing_token() -> None:
    assert equal_share(["a", "b"], ["b", "a"]) == 1
    assert equal_share(["a", "a"], ["a", "b"]) == 0.5
    assert equal_share(["a"], []) == 0
    assert equal_share([], []) == 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "every"), mostly_long([("docs", 4), ("docs", 1), ("news", 1)], 1))
def test_tokens_of_real_pages_are_those_of_lexbor(name: str, every: int) -> None:
    if not (DATA / name / "pages.jsonl.xz").exists():
        pytest.skip(f"../shared/data/{name} is not beside the repository: the labelled pages are not part of it")
    rows = compare(name, every)
    assert rows
    assert sum(share for share, _, _ in rows) / len(rows) >= 0.995
