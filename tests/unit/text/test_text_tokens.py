"""What counts as a token and a block, on pages made for each rule; the reference implementation must agree."""

import pytest

from spotsieve.stream.sign.text import characters
from spotsieve.stream.sign.text.characters import class_and_folding, is_token
from spotsieve.stream.sign.text.generate_tables import (
    character_class,
    character_lines,
    composition_lines,
    entity_lines,
    folding,
)
from spotsieve.stream.sign.text.hashing import hash_token
from spotsieve.stream.sign.text.html.elements import (
    ELEMENTS,
    INLINE,
    KIND_MASK,
    ROLE_MASK,
    ROLE_SHIFT,
    ROLES,
    element_table,
    fold_name,
)
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.pages.page_tokens import tokens_of
from tests.reference.lexbor import DATA, pages_of
from tests.reference.spots import token_hash
from tests.reference.text import blocks_of

HTML = {
    "comments are skipped": ("a<!-- b > c -->d <!-->e<!--->f<!-- --!>g<!-- --! > h --->i", "ad efgi"),
    "an open comment reaches to the end": ("a <!-- b -- > c", "a"),
    "bogus comments end at the first >": ("a<!doctype 'x>y'>b<?php c ?>d</ e>f<!>g</>h", "ay bdfgh"),
    "scripts and styles are skipped": ("<script>a<b</script>c<style>d</style>e<SCRIPT >f</Script >g", "ceg"),
    "a script's comment hides its end tag": ("<script><!-- <script> a </script> b --></script>c", "c"),
    "an open script reaches to the end": ("a<script>b</scriptx>c", "a"),
    "title, noscript, iframe are not text": ("<title>a</title>b<noscript>c</noscript> <iframe>d</iframe>e", "b e"),
    "nested templates are skipped": ("a<template>b<template>c</template>d</template>e<p>f", "a e|f"),
    "an open template reaches to the end": ("a <template><p>b", "a"),
    "> in quotes does not end a tag": ("<a b='>' c=\">\" d = '>'>e</a>", "e"),
    "quotes elsewhere do": ("<a b=c'>d</a> <a '>e</a> <a =\">f", "d e f"),
    "unclosed tags at the end are none": ("a <b c='d", "a"),
    "NUL is nothing": ("a\0b <p\0>c", "ab c"),
    "names in capitals": ("<P>a<BR>b</P>c", "a b|c"),
    "inline tags leave no trace": ("<b>w</b>or<i></i><!-- x -->d<wbr>s &eacute;<b>t</b>&eacute;", "words été"),
    "a break parts words but ends no block": ("a<br>b<img src=x>c", "a b c"),
    "custom and long names are inline": ("a<my-tag x=y>b</my-tag><o:p>c<abcdefghijklmnopqrs>d", "abcd"),
    "entities with or without ;": ("caf&eacute; caf&eacutex &notit; &ampx &nosuch;&", "café caféx it x nosuch"),
    "numeric entities": ("&#65;&#x42&#67 &#x1D49C;&#138; &#0;&#xD800;&#99999999999999999999;x", "abc aš x"),
    "entities of two characters": ("&fjlig;ord &acE;x", "fjord x"),
    "textarea has entities but no tags": ("<textarea>a<b>&amp;&eacute;</textarea>c", "a b é c"),
    "xmp and plaintext have neither": ("<xmp>a&amp;<b></xmp>c<plaintext>d</plaintext>", "a amp b c d plaintext"),
    "CDATA is text in svg only": ("<svg><![CDATA[a>b]]></svg>c<![CDATA[d>e]]>", "a b ce"),
    "a < that opens no tag": ("a < b <1 <", "a b 1"),
    "typographic apostrophes part words as plain ones do": ("don't don’t", "don t don t"),
    "each ideograph is a token": ("漢字 カナ ﾊ ーx", "漢 字 カ ナ ハ ー x"),
    "marks stay in their word and begin none": ("cafe\u0301 \u0301x ❤\ufe0f नमस्ते", "café x नमस्ते"),
    "soft hyphens, joiners, zero-width spaces": (
        "sol\u00addier \ufeffa\u200db a\u200bb",
        "soldier ab ab",
    ),
    "beyond the BMP": ("𐐀𝟘 😀a", "𐐨0 a"),
    "case is folded": ("İIſΣΣ ς ȺẞÉ Straße", "iisσσ σ ⱥssé strasse"),
    "the dot above an i is nothing": ("İx i\u0307x I\u0323\u0307 e\u0307", "ix ix ị ė"),
    "ligatures and full-width forms": ("ﬁn ＦＵＬＬ１２ ﷲ ĳs Ĳ", "fin full12 الله ijs ij"),
    "circled, squared and superscript characters": ("m² ① Ⓐ ㎏ ½ ㍿ x™", "m2 1 a kg 1 2 株 式 会 社 xtm"),
    "kana and their marks": ("ｶﾞ カ\u3099 ハ\u309a は\u0323\u3099 ア\u3099a ﾞ", "ガ ガ パ ば ア a"),
    "Hangul from its letters": ("\u1112\u1161\u11abㄱㅡㄹ \uac00\u11a8 ㅋㅋ", "한그\u1105 각 \u110f\u110f"),
    "marks in any order": ("ế e\u0301\u0302 e\u0302\u0301 ệ e\u0302\u0323", "ế é\u0302 ế ệ ệ"),
    "an iota subscript is an iota in words only": ("ᾴ α\u0345\u0301 x\u00a0\u0345 ͺ", "άι άι x"),
    "bytes that are no UTF-8": (b"a\xffb \xc3(c \xed\xa0\x80d \xf0\x9f\x98e \xc0\xafg\xe2\x82", "a b c d e g"),
    "long words": ("x" * 16 + " " + "Y" * 17 + " " + "z" * 200, "x" * 16 + " " + "y" * 17 + " " + "z" * 200),
    "underscores and signs part words": ("a_b-c/d.e@f1", "a b c d e f1"),
}
PLAIN = {
    "blank lines part blocks": ("a\nb\n\n\nc\r\n \t\r\nd", "a b|c|d"),
    "no markup, no entities": ("<b>a</b>&eacute; <!-- b -->", "b a b eacute b"),
    "NUL parts words": ("a\0b", "a b"),
    "nothing": ("", ""),
}
GOLDEN_TOKENS = {
    "the": 0x46505CD8AC18C87C,
    "internationalization": 0x574A78054A37229C,
    "é": 0x258E4F33BBA4C8A8,
    "漢": 0x6198F83FBADB322C,
}


def written(blocks: list[list[str]]) -> str:
    return "|".join(" ".join(block) for block in blocks)


@pytest.mark.parametrize(("page", "expected"), HTML.values(), ids=HTML.keys())
def test_html(page: str | bytes, expected: str) -> None:
    source = page.encode() if isinstance(page, str) else page
    assert written(tokens_of(source, True)) == expected
    assert written(blocks_of(source, True)) == expected


@pytest.mark.parametrize(("page", "expected"), PLAIN.values(), ids=PLAIN.keys())
def test_plain_text(page: str, expected: str) -> None:
    assert written(tokens_of(page.encode(), False)) == expected
    assert written(blocks_of(page.encode(), False)) == expected


@pytest.mark.parametrize("offset", mostly_long(sorted(range(130), key=lambda offset: offset % 3 > 0), 44))
def test_every_rule_holds_wherever_the_64_byte_windows_fall(offset: int) -> None:
    body = '<a href="x>y" b>The</a> <div class="c">W\u00f6rd</div><b>o</b>ne <!-- - -->&amp;two<p c = d e>z</p>' * 2
    page = (" " * offset + body).encode()
    assert tokens_of(page, True) == blocks_of(page, True)
    for cut in range(len(page) - 70, len(page)):
        assert tokens_of(page[:cut], True) == blocks_of(page[:cut], True)


@pytest.mark.parametrize(
    ("name", "every"), mostly_long([("news", 300), ("docs", 300), ("news", 100), ("docs", 100)], 2)
)
def test_real_pages_give_the_tokens_of_the_reference(name: str, every: int) -> None:
    if not (DATA / name / "pages.jsonl.xz").exists():
        pytest.skip(f"../shared/data/{name} is not beside the repository: the labelled pages are not part of it")
    for number, (page_id, page) in enumerate(pages_of(name)):
        # The reference is slow; test_text_lexbor compares more pages with lexbor.
        if number % every == 0:
            assert tokens_of(page, True) == blocks_of(page, True), page_id


def test_every_entity_of_the_html_standard_is_known() -> None:
    lines = text_tables_lines("entities.txt")
    assert lines == entity_lines()
    for line in lines:
        name = line.split()[0]
        page = f"x&{name}y".encode()
        assert tokens_of(page, True) == blocks_of(page, True), name
    longest = max(len(line.split()[0]) for line in lines)
    bare = max(len(line.split()[0]) for line in lines if ";" not in line)
    assert (longest, bare) == (characters.LONGEST_ENTITY, characters.LONGEST_BARE_ENTITY)


def text_tables_lines(name: str) -> list[str]:
    return [line for line in characters.frozen_lines(name) if not line.startswith("#")]


def test_the_frozen_characters_are_those_of_unicode_14() -> None:
    tokens = {
        "w": characters.WORD,
        "m": characters.MARK,
        "i": characters.IDEOGRAPH,
        "x": characters.IGNORED,
        "e": characters.EXPANDED,
        "j": characters.JOINING,
        "o": characters.OPEN_IDEOGRAPH,
        None: characters.SEPARATOR,
    }
    # Every Unicode version since keeps these; what was unassigned in 14 may have become a letter meanwhile
    for code_point in [*range(0x530), *range(0x3000, 0x3100), 0x4E00, 0x9FFF, 0xFFFD, 0xFF21, 0x1F600, 0x10400]:
        kind, folded = class_and_folding(chr(code_point))
        assert kind == tokens[character_class(code_point)], hex(code_point)
        if kind not in (characters.SEPARATOR, characters.IGNORED):
            assert folded == folding(code_point), hex(code_point)
    assert len(character_lines()) > 5000
    # The Unicode Consortium guarantees that no composition of assigned characters is added
    assert set(text_tables_lines("compositions.txt")) <= set(composition_lines())


def test_a_changed_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(characters.DIGESTS, "entities.txt", "0" * 64)
    with pytest.raises(RuntimeError, match="install the package again"):
        characters.frozen_lines("entities.txt")


def test_every_element_has_a_slot_of_its_own() -> None:
    table = element_table()
    kinds = [(name, kind) for kind, group in ELEMENTS.items() for name in group]
    roles = {name: role for role, group in ROLES.items() for name in group}
    # known for what they mean to foreign content, or to links, alone
    kinds += [(name, INLINE) for name in sorted({"a", *roles} - dict(kinds).keys())]
    assert len({name for name, _ in kinds}) == len(kinds) == int((table.names != 0).sum())
    for name, kind in kinds:
        slot = fold_name(name) * int(table.multiplier) % 2**64 >> 54
        assert table.names[slot] == fold_name(name)
        assert table.traits[slot] & KIND_MASK == kind
        assert table.traits[slot] >> ROLE_SHIFT & ROLE_MASK == roles.get(name, 0)


def test_token_hashes_never_change() -> None:
    for word, golden in GOLDEN_TOKENS.items():
        assert hash_token(word.encode()) == golden == token_hash(word)


def test_one_changed_bit_of_a_token_changes_half_the_hash() -> None:
    flips = []
    for number in range(300):
        word = f"word{number}".encode()
        for bit in range(8 * len(word)):
            changed = bytearray(word)
            changed[bit // 8] ^= 1 << bit % 8
            flips.append(hash_token(word) ^ hash_token(bytes(changed)))
    shares = [sum(flip >> bit & 1 for flip in flips) / len(flips) for bit in range(2, 64)]
    assert 0.47 < min(shares) <= max(shares) < 0.53


def test_words_that_no_page_can_yield_are_no_tokens() -> None:
    assert all(is_token(word) for word in ("the", "été", "漢", "42", "नमस्ते"))
    assert not any(is_token(word) for word in ("", "The", "don't", "a b", "漢字", "\u0301a", "a_b", "a\u00adb"))
