"""The text of a page that its scripts would show: found in every form, judged like any text, and never mistaken."""

import html
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from spotsieve import CrawledPage, Deduplicator
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import InputSettings, Settings
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.cli import main
from spotsieve.stream.sign.schemes.prepared_pages import ScriptTextScheme, pages_as_read
from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_in_scope, scheme_of
from spotsieve.stream.sign.text.prose import MARKUP, unescape_html
from spotsieve.stream.sign.text.script_text import read_script_text
from tests.fixtures.cpu_time import assert_cpu_below, assert_cpu_grows
from tests.fixtures.filter_crawl import filter_json, lines, read_json
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.pages.spotsieve_pages import STORIES

INTRO = (
    "<p>This page belongs to the handbook of the northern harbour offices, and is kept by volunteers who answer.</p>"
)
BUNDLE = '<script src="/static/main.4f2c.js"></script>'
LABELS = {
    "navigation": {"i18n": {"cookies": "We use cookies to keep this page in order, and you may refuse all of them."}}
}
Form = Callable[[Sequence[str]], str]


def script(value: object, attributes: str) -> str:
    return f"<div id=root></div><script {attributes}>{json.dumps(value)}</script>{BUNDLE}"


def code(text: str) -> str:
    return f"<div id=app></div><script>{text}</script>{BUNDLE}"


def as_html(texts: Sequence[str]) -> str:
    return "".join(f"<p class='lead-4'>{text} <b>&amp;</b></p>" for text in texts)


def flight(texts: Sequence[str]) -> str:
    row = "0:" + json.dumps(
        ["$", "article", None, {"children": [["$", "p", None, {"children": text}] for text in texts]}]
    )
    return code(f"self.__next_f.push([1,{json.dumps(row)}])")


def nuxt_call(texts: Sequence[str]) -> str:
    values = ",".join("'" + text.replace("'", "\\'") + "'" for text in texts)
    return code(f"window.__NUXT__=(function(a,b){{return {{layout:'default',data:[{{body:a}}]}}}}({values}));")


LINKED = 'type="application/ld+json"'
FORMS: dict[str, tuple[str, Form]] = {
    "article": ("JSON-LD", lambda texts: script({"@type": "NewsArticle", "articleBody": "\n".join(texts)}, LINKED)),
    "graph": (
        "JSON-LD",
        lambda texts: script({"@graph": [{"@type": "WebSite"}, {"@type": "Article", "articleBody": [*texts]}]}, LINKED),
    ),
    "array": ("JSON-LD", lambda texts: script([{"@type": "Posting", "text": " ".join(texts)}], LINKED)),
    "description": (
        "JSON-LD",
        lambda texts: script(
            {"@type": "Article", "description": " ".join(texts), "publisher": {"description": INTRO}}, LINKED
        ),
    ),
    "linked data with line ends in strings": (
        "JSON-LD",
        lambda texts: f'<script {LINKED}>{{"@type": "Article", "articleBody": "{chr(10).join(texts)}"}}</script>',
    ),
    "invalid linked data": (
        "JSON-LD",
        lambda texts: f"<script {LINKED}>{{'@type': 0, \"articleBody\": {json.dumps(' '.join(texts))},}}</script>",
    ),
    "next": (
        "__NEXT_DATA__",
        lambda texts: script(
            {"props": {"pageProps": {"post": {"blocks": [{"text": text} for text in texts]}, **LABELS}}},
            'id="__NEXT_DATA__" type="application/json"',
        ),
    ),
    "html in next": (
        "__NEXT_DATA__",
        lambda texts: script({"props": {"html": as_html(texts)}}, 'type="application/json" id="__NEXT_DATA__"'),
    ),
    "escaped html in next": (
        "__NEXT_DATA__",
        lambda texts: script({"html": html.escape(as_html(texts))}, 'type="application/json" id="__NEXT_DATA__"'),
    ),
    "nuxt 2": ("__NUXT__", nuxt_call),
    "nuxt 3": (
        "__NUXT__",
        lambda texts: script([{"state": 1}, *texts], 'type="application/json" data-nuxt-data id="__NUXT_DATA__"'),
    ),
    "json": ("JSON", lambda texts: script({"story": json.dumps({"body": [*texts]})}, "type=application/json")),
    "initial state": (
        "inline state",
        lambda texts: code(f"window.__INITIAL_STATE__ = {json.dumps({'story': [*texts], **LABELS})};"),
    ),
    "state with undefined": (
        "inline state",
        lambda texts: code(f"window.__PRELOADED_STATE__={{a:undefined,b:{json.dumps([*texts])}}}; go('it\\'s');"),
    ),
    "apollo": (
        "inline state",
        lambda texts: code(f"window.__APOLLO_STATE__={json.dumps({'Post:1': {'content': as_html(texts)}})}"),
    ),
    "parsed string": (
        "inline state",
        lambda texts: code(f"window.data = JSON.parse({json.dumps(json.dumps({'story': [*texts]}))});"),
    ),
    "server component": ("inline state", flight),
}
LANGUAGES = ("English", "Russian", "Arabic", "Hindi", "Thai", "Japanese")


def shell(body: str, title: str = "One Example", before: str = INTRO) -> str:
    return f"<!doctype html><html><head><title>{title}</title></head><body>{before}{body}</body></html>"


def page(body: str | bytes, row: int = 0) -> Page:
    body = body.encode() if isinstance(body, str) else body
    return Page("t", 0, row, f"https://one.example/{row}", body, True, 0)


def verdicts(*bodies: str | bytes, script_text: bool = True) -> list[tuple[str, str]]:
    pages = [CrawledPage(row, f"https://one.example/{row}", body, "text/html") for row, body in enumerate(bodies)]
    with Deduplicator(input={"script_text": script_text}) as seen:
        return [(verdict.kind, verdict.reason) for verdict in seen.add_many(pages)]


@pytest.mark.parametrize("name", FORMS)
def test_two_articles_in_one_shell_are_novel_and_one_article_in_two_shells_is_a_copy(name: str) -> None:
    source, form = FORMS[name]
    for language in LANGUAGES:
        one, other = STORIES[language, 1], STORIES[language, 2]
        read = read_script_text(page(shell(form(one))), 18)
        assert read.text_source == source
        assert not LABELS.keys() & {*read.body.decode().split()}
        assert [kind for kind, _ in verdicts(shell(form(one)), shell(form(other)))] == ["novel", "novel"], language
        again = shell(form(one), before="<nav><a href=/>Home</a></nav>")
        assert verdicts(shell(form(one)), again)[1] == ("duplicate", "contained"), language


def test_an_article_rendered_by_the_server_is_a_copy_of_its_twin_in_a_script() -> None:
    for language in LANGUAGES:
        story = STORIES[language, 1]
        rendered = shell("".join(f"<p>{text}</p>" for text in story))
        for name in ("article", "next", "html in next", "server component"):
            assert verdicts(rendered, shell(FORMS[name][1](story)))[1] == ("duplicate", "contained"), (language, name)


NOTE = "A number of 64 bits that names an open socket of the system, available on some systems only."
TOOLBAR = "<page-toolbar></page-toolbar>"
LIST = "".join(f"<li><a href=/{n}>The item number {n}</a>" for n in range(12))
SIGNS = {"a blank": "&nbsp;", "an invisible reference": "&#8203;", "a bar": "|", "a byte order mark": "\ufeff"}
SHELLS = {
    **{
        f"a custom element behind {name}": f"{sign}<nav>Home</nav><p>{sign}</p><todo-list></todo-list>{BUNDLE}"
        for name, sign in SIGNS.items()
    },
    "nothing": BUNDLE,
    "a root": "<div id=root></div><noscript>You need to enable JavaScript to run this app.</noscript>" + BUNDLE,
    "loading": "<div id='app'><div class=spinner>Loading&hellip;</div></div>" + BUNDLE,
    "loading in Japanese": "<div>読み込み中…</div>" + BUNDLE,
    "a menu and a footer": "<nav><a href=/>Home</a> <a href=/n>News of the day</a></nav><div id='__next'></div>"
    "<footer>All rights reserved by the publisher of this page and its partners, 2024</footer>" + BUNDLE,
    "a custom element": f"{INTRO}<app-root></app-root>{BUNDLE}",
    "a custom element of any name": f"<nav><a href=/>Home</a></nav><todo-list></todo-list><p>Made by us.</p>{BUNDLE}",
    "a menu and a warning": f"<nav>{LIST}</nav><main></main><noscript>This site needs JavaScript.</noscript>{BUNDLE}",
    "a visible warning": "<p>Please enable JavaScript and cookies in your browser to continue here.</p>" + BUNDLE,
    "labels": script(
        {"messages": {"a": "Please accept all of our cookies to continue reading this page here, and enjoy."}},
        "type=application/json",
    ),
    "class names": script(
        {"x": "flex items-center justify-between px-4 py-2 rounded-md hover:bg-gray-100 dark:text-white w-full"},
        "type=application/json",
    ),
    "addresses": script({"x": ["https://one.example/a"] * 40}, "type=application/json"),
    "program text": script(
        {"x": "function load(a, b) { if (a == b) { return a.map(x => x + 1); } } load({a: 1}, {b: 2});"},
        "type=application/json",
    ),
    "a deep value": f"<div id=root></div><script type=application/json>{'[' * 100_000}</script>",
    "no JSON": f"<div id=root></div><script id=__NEXT_DATA__ type=application/json>{'{words ' * 60}</script>",
    "the description of a page": script({"@type": ["WebPage"], "description": STORIES["English", 1][0]}, LINKED),
    "the site alone": script(
        {
            "@type": "Organization",
            "description": "The publisher of this page and of many other pages, who answers letters from readers.",
        },
        LINKED,
    ),
}


@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_without_text_is_emitted_unchecked_and_never_an_original(name: str) -> None:
    body = shell(SHELLS[name], before="")
    assert verdicts(body, body) == [("unchecked", "script_only")] * 2
    assert "script_only" not in {reason for _, reason in verdicts(body, body, script_text=False)}


KEPT = {
    "a short note": "<p>Back on Monday.</p><script>track()</script>",
    "an index page": "".join(f"<li><a href=/{n}>The story number {n} of the day</a>" for n in range(60)) + BUNDLE,
    "a definition beside a toolbar": f"<h1>Type Alias SOCKET</h1>{TOOLBAR}<p>{NOTE}</p>{BUNDLE}",
    "a list of links beside a toolbar": f"<h1>List of all items</h1>{TOOLBAR}{LIST}{BUNDLE}",
    "a list of links behind a header": f"<site-header></site-header><h1>List of all items</h1>{LIST}{BUNDLE}",
    "a note between parts of a page": f"<site-header></site-header><p>{NOTE}</p><site-footer></site-footer>{BUNDLE}",
    "an image of AMP before a caption": f"<amp-img src=a.jpg></amp-img><p>A heron on a pier.</p>{BUNDLE}",
    "teasers with a word of programs": f"<p>Draw diagrams via JavaScript.</p>{LIST}{BUNDLE}",
    "links beside a warning about comments": f"<h1>Posts of May</h1>{LIST}"
    f"<noscript>Please enable JavaScript to view the comments.</noscript>{BUNDLE}",
    "no script": "<div id=root></div><p>Loading</p>",
    "a note beside a comment": f"{INTRO}<!-- {FORMS['next'][1](STORIES['English', 2])} --><script>track()</script>",
    "a short text with a description": INTRO * 2
    + f"<script {LINKED}>{json.dumps({'@type': 'Organization', 'description': INTRO * 3})}</script>",
    "a list of topics with the description of the site": "<p>Topics</p><p>Guides and notes for gardeners</p>"
    f"<script {LINKED}>{json.dumps({'@type': 'WebPage', 'headline': 'Topics', 'description': INTRO * 3})}</script>",
    "an article": as_html([f"{text} {row}" for row in range(3) for text in STORIES["English", 1]])
    + FORMS["next"][1](STORIES["English", 2]),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_pages_are_read_as_before(name: str) -> None:
    page_kept = page(shell(KEPT[name], before=""))
    assert pages_as_read(scheme_in_scope(settings()), [page_kept]) == [page_kept]


def settings(**overrides: object) -> Settings:
    return Settings(input=InputSettings(**overrides))


def test_the_setting_turns_script_text_off() -> None:
    one, other = (shell(FORMS["next"][1](STORIES["English", row])) for row in (1, 2))
    assert verdicts(one, other, script_text=False)[1] == ("duplicate", "contained")
    scheme = scheme_in_scope(settings(script_text=False))
    assert pages_as_read(scheme, [page(one)]) == [page(one)]
    assert verdict_settings_text(settings()) != verdict_settings_text(settings(script_text=False))


@pytest.mark.parametrize("name", FORMS)
def test_a_shell_cut_anywhere_is_no_copy_of_another_article(name: str) -> None:
    one, other = (shell(FORMS[name][1](STORIES["English", row])).encode() for row in (1, 2))
    for before in (one, shell("".join(f"<p>{text}</p>" for text in STORIES["English", 1])).encode()):
        with Deduplicator() as seen:
            seen.add(0, "https://one.example/0", before)
            cuts = [CrawledPage(end, "https://one.example/1", other[:end], "text/html") for end in range(len(other))]
            kinds = {verdict.kind for verdict in seen.query_many(cuts)}
        assert kinds <= {"novel", "unchecked"}


def test_markup_in_the_text_of_a_script_never_becomes_markup_of_the_page() -> None:
    text = "The tags <script> and <!-- and </main> are named in this text. " + " ".join(STORIES["English", 1])
    whole = page(shell(script({"articleBody": text.replace("<", "&lt;")}, LINKED)))
    read = read_script_text(whole, 0)
    assert read.body.endswith(b"</article>\n" + whole.body)
    added = read.body.removesuffix(whole.body).decode()
    assert [tag[0] for tag in MARKUP.finditer(added)] == ["<article>", "<p>", "</p>", "</article>"]
    assert html.unescape(added[len("<article>\n<p>") :]).startswith(text[:80])
    assert read_script_text(read, 18) is read


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_reads_the_text_of_scripts(scheme: str) -> None:
    wrapped = ScriptTextScheme(scheme_of(settings_named(scheme)))
    stories = [STORIES["English", 1], STORIES["English", 2]]
    pages = [page(shell("".join(f"<p>{text}</p>" for text in story)), row) for row, story in enumerate(stories)]
    pages[1:1] = [page(shell(FORMS["next"][1](story)), row + 2) for row, story in enumerate(stories)]
    pages.append(page(shell(SHELLS["a root"], before=""), 4))
    read = wrapped.read(pages)
    assert [one.text_source for one in read] == ["", "__NEXT_DATA__", "__NEXT_DATA__", "", ""]
    signed, alone = wrapped.sign(pages), wrapped.inner.sign(read)
    assert signed.offset.tolist() == [0, 2, 3, 1, 4]
    assert signed.status[-1] == SignatureStatus.SCRIPT_ONLY
    for column in ("digest", "status", "feature_count", "features", "features_bounds", "blocks", "sketch", "urls"):
        assert np.array_equal(getattr(signed, column), getattr(alone, column)), column


BOMBS = {
    "scripts": "<script>",
    "scripts of JSON": "<script type=application/json>{}</script>",
    "scripts without an end of their tag": "<script type='application/json' ",
    "comments": "<!--<script type=application/json></script>",
    "brackets": "<script type=application/json>" + "[" * 50,
    "quotes": "<script>__NUXT__='\"`\\\"\\'\\`",
    "escaped quotes": '<script>__A_STATE__="' + '\\"' * 40,
    "slashes": "<script>__A_STATE__=/*/*//",
    "tags in strings": '<script type=application/json>{"a": "' + "<a <!-- <script> &amp;lt;" * 4 + '"}</script>',
    "attributes": "<div id=root id=root id=root ",
    "roots": "<script></script><div id=root> <a-a-a-a>",
    "white space": "<script type=application/ld+json>" + " " * 60,
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("closed", [True, False])
def test_hostile_scripts_take_time_linear_in_their_size(name: str, closed: bool) -> None:
    def read(size: int) -> None:
        piece = BOMBS[name]
        first = piece[: piece.index(">") + 1] if closed and ">" in piece else ""
        body = first + piece[len(first) :] * (size // len(piece)) + "</script>" * closed
        read_script_text(page("<script></script>" + body), 5)

    assert_cpu_grows(read, 60_000, 480_000, most=24, extra=0.024)


@pytest.mark.parametrize("depth", [10, 900, 1000, 1020])
def test_nested_types_of_linked_data_are_read_in_linear_time(depth: int) -> None:
    story = json.dumps(" ".join(STORIES["English", 1]))
    nested = '{"@type":' * depth + json.dumps("'\n" * 300_000) + f', "text": {story}' + "}" * depth
    shown = page(shell(f"<script {LINKED}>{nested}</script>"))
    assert read_script_text(shown, 5).text_source == "JSON-LD"
    assert_cpu_below(0.5, lambda: read_script_text(shown, 5))


def test_long_decimal_references_are_decoded() -> None:
    story = " ".join(STORIES["English", 1])
    for reference in ("&#" + "1" * 5000 + ";", "&#" + "0" * 5000 + "65;"):
        read = read_script_text(page(shell(script({"articleBody": reference + " " + story}, LINKED))), 0)
        assert read.text_source == "JSON-LD"
        assert verdicts(f"<p>{reference} {story}", f"<link rel=canonical href={reference}><p>{story}")[0][0] == "novel"


@pytest.mark.parametrize("last", ["", "&#" + "1" * 16])
def test_references_are_decoded_as_python_decodes_them(last: str) -> None:
    pieces = ["&", "#", "&#", "x", "00", "65", "1114111", "1114112", "55296", ";", " ", "a", "amp;", "0" * 20, "9" * 20]
    draw = random.Random(7)
    for _ in range(5000):
        text = "".join(draw.choices(pieces, k=10)) + last
        assert unescape_html(text) == html.unescape(text)


def test_files_of_shells_are_filtered_and_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (shell(FORMS["next"][1](STORIES["English", row])) for row in (1, 2))
    bodies = [one, shell(SHELLS["a root"], before=""), other, one.replace("</h", "\n</h"), shell(BUNDLE, before="")]
    path, out, state = tmp_path / "p.jsonl", tmp_path / "out.jsonl", tmp_path / "state"
    path.write_bytes(lines([{"url": f"https://one.example/{row}", "body": body} for row, body in enumerate(bodies)]))
    summary = filter_json(capsys, path, "--out", out, "--state", state)
    assert summary["reasons"] == {"no_match": 2, "contained": 1, "script_only": 2}
    assert [line["url"][-1] for line in read_json(out)] == ["0", "1", "2", "4"]
    flags = ["https://one.example/3", "--state", str(state), "--pages", str(path)]
    assert main(["explain", *flags]) == 0
    assert "of a script (__NEXT_DATA__)" in capsys.readouterr().out
    assert main(["explain", *flags, "--json"]) == 0
    texts = json.loads(capsys.readouterr().out)["texts"]
    assert texts["page"]["source"] == texts["other"]["source"] == "__NEXT_DATA__"
    assert texts["containment"] == 1.0
