"""Bytes of any character set become UTF-8, whatever was declared."""

import codecs
import itertools
import random
import re
import unicodedata
from collections.abc import Iterator
from functools import partial

import pytest
from webencodings.labels import LABELS

from spotsieve import Deduplicator
from spotsieve.stream.sign.intake.charset import (
    LEAST_DOUBLED,
    MIN_VALID_RATIO,
    PRESCAN_BYTES,
    declared_in_markup,
    find_codec,
    to_utf8,
    undo_double_encoding,
)
from tests.fixtures.cpu_time import assert_cpu_below, assert_cpu_ratio

GERMAN = "Der Bürgermeister sprach über größere Häuser. "
RUSSIAN = "Сегодня в столице прошло заседание правительства, на котором обсуждались вопросы экономики. "
JAPANESE = "今日の午前、東京で政府の会議が開かれ、経済と予算について議論が行われました。"
CHINESE = "今天上午，政府在首都举行会议，讨论明年的经济和预算问题。天气晴朗，适合出行。"


def html(text: str, head: str = "") -> str:
    return f"<!DOCTYPE html><html><head><title>x</title>{head}</head><body><p>{text}</p></body></html>"


def test_utf8_bytes_are_returned_as_they_are_without_a_copy() -> None:
    for body in (html("plain").encode(), html(RUSSIAN).encode(), b""):
        assert to_utf8(body).text is body
        assert to_utf8(body, "utf-8").text is body


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("iso-8859-1", GERMAN),
        ("latin1", "“quotes” – and dashes"),
        ("windows-1251", RUSSIAN),
        ("koi8-r", RUSSIAN),
        ("shift_jis", JAPANESE),
        ("x-sjis", JAPANESE),
        ("euc-jp", JAPANESE),
        ("iso-2022-jp", JAPANESE),
        ("gb2312", "朱镕基" + CHINESE),
        ("gbk", CHINESE),
        ("big5", "今天上午，政府在首都舉行會議"),
        ("ks_c_5601-1987", "오늘 오전 정부는 서울에서 회의를 열고 똠방각하"),
        ("utf-16", GERMAN),
        ("utf-16be", GERMAN),
        ("hz-gb-2312", CHINESE),
    ],
)
def test_the_headers_charset_is_used_by_the_labels_of_the_web(label: str, text: str) -> None:
    codec = find_codec(label)
    assert codec
    assert to_utf8(html(text).encode(codec), label).text == html(text).encode()


@pytest.mark.parametrize(
    "head",
    [
        '<meta charset="windows-1251">',
        "<META CHARSET=windows-1251>",
        "<meta name=x content='a>b'/><meta charset='cp1251'/>",
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
        "<meta content='text/html;charset=windows-1251' http-equiv=content-type>",
        '<!-- <meta charset="koi8-r"> --><meta charset="windows-1251">',
        '<script data-x="<meta charset=koi8-r>"></script><meta charset="windows-1251">',
        "<style>" + " " * 2000 + '</style><meta charset="windows-1251">',
        "<!--" + "x" * 9000 + '--><meta charset="windows-1251">',
        '<meta charset="bogus"><meta charset="windows-1251">',
        "<meta http-equiv=content-type content='text/html'><meta charset=windows-1251>",
        """<meta http-equiv=content-type content="text/html; charset='windows-1251'">""",
        """<meta http-equiv=content-type content='text/html; charset="windows-1251"'>""",
        """<p title=it's><meta charset=windows-1251>""",
        """<p title"><meta charset=windows-1251>""",
    ],
)
def test_the_charset_in_the_markup_is_used(head: str) -> None:
    page = html(RUSSIAN, head)
    assert to_utf8(page.encode("cp1251")).text == page.encode()


@pytest.mark.parametrize(
    "head",
    [
        b"<p>no declaration",
        b"<!-- <meta charset=koi8-r>",
        b"<meta name=charset content=koi8-r>",
        b"<meta content='charset=koi8-r'>",
        b"<metacharset=koi8-r>",
        b"<meta charset",
        b"<meta charset=>",
        b"<meta charset=bogus>",
        b"<meta charset='koi8-r>",
        b'<meta http-equiv="Content-Type<meta charset="koi8-r">',
        b"<meta http-equiv=content-type content='text/html; charset=\"koi8-r'>",
    ],
)
def test_what_only_looks_like_a_declaration_declares_nothing(head: bytes) -> None:
    assert declared_in_markup(head) is None


@pytest.mark.parametrize("piece", [b"<a b='", b'<meta a="', b"<meta a=b ", b"<a '", b"<a = ", b"<meta /", b"<p a=\"'"])
def test_hostile_markup_before_a_declaration_takes_little_time(piece: bytes) -> None:
    for end in (b"", b">", b"<meta charset=koi8-r>"):
        assert_cpu_below(0.1, partial(declared_in_markup, piece * (PRESCAN_BYTES // len(piece)) + end))


def test_utf16_in_markup_that_is_readable_as_ascii_means_utf8() -> None:
    assert declared_in_markup(b"<meta charset=utf-16>") == "utf-8"
    assert declared_in_markup(b"<?xml version='1.0' encoding='UTF-16LE'?>") == "utf-8"


@pytest.mark.parametrize(
    ("label", "raw", "text"),
    [
        ("euc-jp", b"\xad\xa1\xc6\xfc\xcb\xdc\xf9\xa1\xfc\xe2", "①日本纊髙"),
        ("x-euc-jp", b"\xad\xea\xad\xb5\xf9\xf5", "㈱Ⅰ﨑"),
        ("koi8-u", b"\xae\xb4\xbe\xa4", "ўЄЎє"),
        ("windows-1255", b"\xe5\xca\xe0", "ו\u05baא"),
        ("gb18030", b"\xa8\xbc\xfe\x59\xa6\xd9\xb0\xa1", "ḿ龴︐啊"),
        ("gb2312", b"\xb0\xa1\xa3\xa0\xb0\xa1", "啊\u3000啊"),
    ],
)
def test_characters_of_the_standard_that_python_lacks_are_read(label: str, raw: bytes, text: str) -> None:
    assert to_utf8(raw * 20, label).text.decode() == text * 20
    damaged = to_utf8(b"\xff" + raw * 20, label).text.decode()
    assert damaged.endswith(text * 20)


@pytest.mark.parametrize("piece", [b"\xff", b"\xa1\xff", b"\xfe\xfe", b"\xfe\xfdx", b"\xad", b"\x8e", b"\x8f\xa1 "])
def test_a_page_of_invalid_euc_jp_takes_little_time(piece: bytes) -> None:
    body = b"<meta charset=euc-jp>" + piece * (200_000 // len(piece))
    assert to_utf8(body).text.startswith(b"<meta charset=euc-jp>")
    assert_cpu_below(0.3, lambda: to_utf8(body))


def test_bytes_that_euc_jp_does_not_have_are_still_an_error() -> None:
    found = to_utf8(JAPANESE.encode("euc-jp") * 3 + b"\xa9\xfe", "euc-jp").text.decode()
    assert found.startswith(JAPANESE * 3 + "\ufffd")


FOOTER = "<p>© 2026</p>"


def test_iso_2022_jp_with_characters_of_another_set_stays_iso_2022_jp() -> None:
    for head, label in (("", "iso-2022-jp"), ("<meta charset=iso-2022-jp>", None), ("", None)):
        page = html(JAPANESE, head)
        for footer in (FOOTER.encode(), FOOTER.encode("cp1252"), FOOTER.encode("cp1252") * 9):
            read = to_utf8(page.encode("iso-2022-jp") + footer, label).text.decode()
            assert read.startswith(page)
            assert read.endswith("\ufffd 2026</p>")
    page = html(JAPANESE + "\x1b$B", "<meta charset=iso-2022-jp>") + FOOTER
    assert to_utf8(page.encode(), "utf-8").text == page.encode()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x1b$B-!-j|b\x1b(B", "①㈱髙"),
        (b"\x1b(I6@6E\x1b(B", "ｶﾀｶﾅ"),
        (b"\x1b$(D0!\x1b(B", "丂"),
        (b"\x1b$@F|K\\\x1b(J", "日本"),
        (b"a\x1b$B-!\x1b(B\xffb\x1b$B-!", "a①\ufffdb①"),
    ],
)
def test_characters_of_iso_2022_jp_that_python_lacks_are_read(raw: bytes, text: str) -> None:
    for before in (b"", b"\x1b$B-!\x1b(B "):
        assert to_utf8(before + raw, "iso-2022-jp").text.decode() == ("① " if before else "") + text


@pytest.mark.parametrize("piece", [b"\x1b$B\xff", b"\x1b", b"\x1b$", b"\x1b(I6", b"\x1b$(D0!", b"\x1b$B-"])
def test_a_page_of_escapes_takes_little_time(piece: bytes) -> None:
    body = b"<meta charset=iso-2022-jp>" + piece * (200_000 // len(piece))
    assert_cpu_below(0.5, lambda: to_utf8(body))


def test_hz_that_the_markup_declares_is_read() -> None:
    page = html(CHINESE, "<meta charset=hz-gb-2312>")
    assert to_utf8(page.encode("hz")).text == page.encode()
    assert to_utf8(html("a ~{ b").encode()).text == html("a ~{ b").encode()


def test_the_first_tag_tells_the_order_of_utf16_under_any_header() -> None:
    for label, codec in itertools.product(("utf-16", "utf-16le", "utf-16be"), ("utf-16-le", "utf-16-be")):
        assert to_utf8(html(JAPANESE).encode(codec), label).text == html(JAPANESE).encode()


def test_an_xml_declaration_declares_too() -> None:
    page = f'<?xml version="1.0" encoding="koi8-r"?><html><p>{RUSSIAN}</p></html>'
    assert to_utf8(page.encode("koi8-r")).text == page.encode()


@pytest.mark.parametrize(
    ("mark", "codec"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
def test_a_byte_order_mark_outranks_the_header_and_leaves_no_trace(mark: bytes, codec: str) -> None:
    assert to_utf8(mark + html(RUSSIAN).encode(codec), "iso-8859-1").text == html(RUSSIAN).encode()


def test_utf16_without_a_mark_is_known_by_its_first_tag() -> None:
    for codec in ("utf-16-le", "utf-16-be"):
        assert to_utf8(html(JAPANESE).encode(codec)).text == html(JAPANESE).encode()
        assert to_utf8(html("ascii").encode(codec)).text == html("ascii").encode()


def test_utf8_under_a_header_that_says_latin1_stays_utf8() -> None:
    for label in ("iso-8859-1", "windows-1251", "gbk", "utf-16", "nonsense"):
        assert to_utf8(html(RUSSIAN).encode(), label).text == html(RUSSIAN).encode()


UTF8_TEXTS = {
    "French": "L’été dernier, les élèves du collège ont préparé une pièce de théâtre très applaudie à la fête. ",
    "Russian": RUSSIAN,
    "Greek": "Η κυβέρνηση συνεδρίασε σήμερα στην Αθήνα και συζήτησε τα οικονομικά μέτρα της χρονιάς. ",
    "Hebrew": "הממשלה התכנסה היום בירושלים ודנה בתקציב המדינה לשנה הבאה. ",
    "Arabic": "اجتمعت الحكومة اليوم في العاصمة وناقشت ميزانية الدولة للعام المقبل. ",
    "Hindi": "सरकार की बैठक आज राजधानी में हुई और अगले वर्ष के बजट पर चर्चा की गई। ",
    "Thai": "วันนี้รัฐบาลประชุมที่เมืองหลวงและหารือเรื่องงบประมาณของปีหน้า ",
    "Vietnamese": "Hôm nay chính phủ họp tại thủ đô và thảo luận về ngân sách của năm tới. ",
    "Korean": "오늘 오전 정부는 서울에서 회의를 열고 내년 예산을 논의했다. ",
    "Japanese": JAPANESE,
    "Chinese": CHINESE,
}
HEADERS = (
    None,
    "utf-8",
    "iso-8859-1",
    "windows-1252",
    "windows-1251",
    "koi8-r",
    "gbk",
    "shift_jis",
    "euc-kr",
    "nonsense",
)


@pytest.mark.parametrize("language", UTF8_TEXTS)
@pytest.mark.parametrize("meta", ["", '<meta charset="utf-8">', '<meta charset="iso-8859-1">', '<meta charset="gbk">'])
def test_utf8_with_a_stray_byte_stays_utf8_whatever_is_declared(language: str, meta: str) -> None:
    before, after = html(UTF8_TEXTS[language] * 2, meta).split("</p>")
    for label, stray in itertools.product(HEADERS, (b"\xa9", b"\xff", b"\x80", b"\xe9")):
        body = before.encode() + stray + b" 2026</p>" + after.encode()
        assert to_utf8(body, label).text == f"{before}\ufffd 2026</p>{after}".encode()


@pytest.mark.parametrize("language", UTF8_TEXTS)
def test_utf8_that_ends_inside_a_character_stays_utf8(language: str) -> None:
    whole = ("<p>" + UTF8_TEXTS[language] * 2).encode()
    for label, end in itertools.product(HEADERS, range(len(whole) - 40, len(whole))):
        assert to_utf8(whole[:end], label).text == whole[:end].decode(errors="replace").encode()


def test_each_invalid_sequence_needs_eight_valid_ones() -> None:
    for invalid in (1, 3, 50):
        stray = b"\xe9 " * invalid
        enough = "é ".encode() * MIN_VALID_RATIO * invalid
        assert (
            to_utf8(enough + stray, "latin1").text == ("é " * MIN_VALID_RATIO * invalid + "\ufffd " * invalid).encode()
        )
        assert to_utf8(enough[3:] + stray, "latin1").text == (enough[3:] + stray).decode("cp1252").encode()


def test_replacement_characters_of_the_page_are_no_invalid_bytes() -> None:
    body = ("\ufffd" * 20 + "é" * 10).encode() + b"\xe9"
    assert to_utf8(body, "latin1").text == body.decode(errors="replace").encode()


LEGACY = {
    "French": "windows-1252",
    "German": "iso-8859-1 iso-8859-15 macintosh",
    "Czech": "windows-1250 iso-8859-2",
    "Lithuanian": "windows-1257 iso-8859-13 iso-8859-4",
    "Icelandic": "iso-8859-10",
    "Romanian": "iso-8859-16",
    "Maltese": "iso-8859-3",
    "Welsh": "iso-8859-14",
    "Turkish": "windows-1254",
    "Russian": "windows-1251 koi8-r koi8-u iso-8859-5 ibm866 x-mac-cyrillic",
    "Greek": "windows-1253 iso-8859-7",
    "Hebrew": "windows-1255 iso-8859-8",
    "Arabic": "windows-1256 iso-8859-6",
    "Thai": "windows-874",
    "Vietnamese": "windows-1258",
    "Chinese": "gbk gb18030",
    "Traditional": "big5",
    "Japanese": "shift_jis euc-jp",
    "Korean": "euc-kr",
}
LEGACY_TEXTS = UTF8_TEXTS | {
    "German": GERMAN,
    "Czech": "Vláda dnes v Praze jednala o příštím rozpočtu a několik ministrů žádalo více peněz. ",
    "Lithuanian": "Šiandien vyriausybė Vilniuje svarstė kitų metų biudžetą, ministrai prašė daugiau lėšų. ",
    "Icelandic": "Ríkisstjórnin kom saman í dag og ræddi fjárlög næsta árs, en ráðherrar báðu um meira fé. ",
    "Romanian": "Guvernul s-a întâlnit astăzi și a discutat bugetul țării pentru anul viitor. ",
    "Maltese": "Il-gvern illum iltaqa' u ddiskuta l-baġit, ħafna ministri talbu aktar għajnuna. ",
    "Welsh": "Cyfarfu'r llywodraeth heddiw ŵyn tŷ dŵr i drafod y gyllideb ar gyfer y flwyddyn. ",
    "Turkish": "Hükümet bugün Ankara'da toplandı ve gelecek yılın bütçesini görüştü, ağır şartlar çıktı. ",
    "Traditional": "今天上午，政府在首都舉行會議，討論明年的經濟和預算問題。",
}


@pytest.mark.parametrize(("label", "language"), [(label, name) for name in LEGACY for label in LEGACY[name].split()])
@pytest.mark.parametrize("capitals", [False, True])
def test_a_legacy_page_keeps_the_charset_that_it_declares(label: str, language: str, capitals: bool) -> None:
    text = LEGACY_TEXTS[language].upper() if capitals else LEGACY_TEXTS[language]
    codec = find_codec(label)
    assert codec
    text = text.encode(codec, "replace").decode(codec)
    for words in (text, text * 5, *text.split()):
        page, declared = html(words), html(words, f"<meta charset={label}>")
        if words.isascii() or _is_utf8_by_chance(words.encode(codec)):
            continue
        assert to_utf8(page.encode(codec), label).text == page.encode()
        assert to_utf8(declared.encode(codec)).text == declared.encode()
        xml = f"<?xml version='1.0' encoding='{label}'?>\n{page}"
        assert to_utf8(xml.encode(codec)).text == xml.encode()
        cut = page.encode(codec)[: -len("</p></body></html>")]
        assert to_utf8(cut, label).text == cut.decode(codec).encode()


@pytest.fixture(scope="module")
def seen() -> Iterator[Deduplicator]:
    """A page in UTF-8 for each language."""
    with Deduplicator() as found:
        for language in LEGACY:
            assert found.add(language, f"https://a.example/{language}", article_in(language, 0)).kind == "novel"
        yield found


def article_in(language: str, seed: int, head: str = "") -> str:
    """A page of some paragraphs with the words of a text in many orders; of other words for another seed."""
    draw = random.Random(f"{language} {seed}")
    words = LEGACY_TEXTS[language].split()
    if len(words) < 3:
        words = list(words[0])
    joint = "" if language in ("Chinese", "Traditional", "Japanese") else " "
    halves = words[seed % 2 :: 2], words
    orders = [joint.join(draw.choices(halves[one % 2], k=30)) for one in range(8)]
    return html("</p><p>".join(orders), head)


def with_tone_marks(text: str) -> str:
    """Vietnamese as windows-1258 has it: a letter, and its tone as a combining character."""
    tones = re.compile("[\u0300\u0301\u0303\u0309\u0323]")
    parts = (unicodedata.normalize("NFD", character) for character in text)
    return "".join(unicodedata.normalize("NFC", tones.sub("", one)) + "".join(tones.findall(one)) for one in parts)


def declaring(way: str, label: str, language: str, seed: int) -> tuple[str, str]:
    """A page that declares a charset in the header, in <meta> or in the XML declaration, and its Content-Type."""
    if way == "header":
        return article_in(language, seed), f"text/html; charset={label}"
    if way == "meta":
        return article_in(language, seed, f"<meta charset={label}>"), "text/html"
    return f'<?xml version="1.0" encoding="{label}"?>\n{article_in(language, seed)}', "application/xhtml+xml"


@pytest.mark.parametrize(("label", "language"), [(label, name) for name in LEGACY for label in LEGACY[name].split()])
@pytest.mark.parametrize("way", ["header", "meta", "XML declaration"])
def test_a_copy_in_any_legacy_charset_is_a_duplicate_and_another_text_is_novel(
    seen: Deduplicator, label: str, language: str, way: str
) -> None:
    codec = find_codec(label)
    assert codec
    for seed, kind in ((0, "duplicate"), (1, "novel")):
        text, content_type = declaring(way, label, language, seed)
        if language == "Vietnamese":
            text = with_tone_marks(text)
        body = text.encode(codec, "replace")
        assert seen.query("b", "https://b.example/", body, content_type=content_type).kind == kind


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("language", LEGACY)
def test_a_copy_with_a_byte_order_mark_is_a_duplicate_under_any_header(
    seen: Deduplicator, codec: str, language: str
) -> None:
    mark = codecs.BOM_UTF16_BE if codec == "utf-16-be" else b""
    for header in ("text/html", "text/html; charset=iso-8859-1", "text/html; charset=utf-16le"):
        body = mark + article_in(language, 0).encode(codec)
        assert seen.query("b", "https://b.example/", body, content_type=header).kind == "duplicate"


def test_at_least_31_legacy_charsets_are_tested() -> None:
    assert len({find_codec(label) for labels in LEGACY.values() for label in labels.split()}) >= 31


def _is_utf8_by_chance(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_the_charset_in_the_markup_is_found_behind_blanks() -> None:
    page = "\r\n" * 5000 + html(RUSSIAN, '<meta charset="koi8-r">')
    assert to_utf8(page.encode("koi8-r")).text == page.encode()
    page = "\n" * 5000 + f'<?xml version="1.0" encoding="koi8-r"?><html><p>{RUSSIAN}</p></html>'
    assert to_utf8(page.encode("koi8-r")).text == page.encode()


def test_two_hanzi_in_gbk_that_look_like_utf8_are_read_as_declared() -> None:
    body = "模模".encode("gbk")
    assert body.decode()  # valid UTF-8 by accident
    assert to_utf8(body, "gb2312").text == "模模".encode()


def test_the_markups_charset_is_used_where_the_headers_cannot_be_true() -> None:
    page = html(JAPANESE * 3, '<meta charset="shift_jis">')
    assert to_utf8(page.encode("cp932"), "utf-8").text == page.encode()
    page = html(CHINESE * 3, '<meta charset="gbk">')
    assert to_utf8(page.encode("gbk"), "euc-jp").text == page.encode()


def test_a_wrong_byte_in_a_declared_charset_is_replaced_and_the_rest_is_kept() -> None:
    body = html(RUSSIAN).encode() + b"\xff!"
    assert to_utf8(body, "utf-8").text == html(RUSSIAN).encode() + "\ufffd!".encode()
    body = html(JAPANESE).encode("cp932") + b"\xff\xff!"
    assert JAPANESE.encode() in to_utf8(body, "shift_jis").text


def test_undeclared_legacy_sets_are_detected_even_behind_a_long_ascii_head() -> None:
    head = "<style>" + "p { margin: 0 } " * 4000 + "</style>"
    for codec, text in (("cp1251", RUSSIAN), ("koi8-r", RUSSIAN), ("cp932", JAPANESE), ("gb18030", CHINESE)):
        page = html(text * 20, head)
        assert to_utf8(page.encode(codec)).text == page.encode()
        assert to_utf8(page.encode(codec), "utf-8").text == page.encode(), (
            "a header that cannot be true is not believed"
        )
    page = html(JAPANESE)
    assert to_utf8(page.encode("iso-2022-jp")).text == page.encode()


def test_every_label_of_the_web_has_a_codec_or_none_on_purpose() -> None:
    without = {label for label in LABELS if find_codec(label) is None}
    assert {LABELS[label] for label in without} <= {"replacement", "x-user-defined"}
    for label in LABELS:
        codec = find_codec(label)
        assert codec is None or codecs.lookup(codec)


@pytest.mark.parametrize("label", ["", "   ", "utf-7", "base64", "zlib", "rot13", "idna", "x" * 10_000, "\ud800"])
def test_labels_that_are_no_charset_are_ignored(label: str) -> None:
    assert find_codec(label) is None
    assert to_utf8(GERMAN.encode("cp1252") * 20, label).text == (GERMAN * 20).encode()


def test_repaired_utf8_is_told_from_every_other_text() -> None:
    text = html(RUSSIAN * 20).encode()
    for label in (None, "utf-8", "iso-8859-1"):
        assert to_utf8(text + b"\xff", label).repaired
        assert to_utf8(text[:-1].replace(b"</p>", b"\xd0</p>"), label).repaired
        assert to_utf8(b"\xef\xbb\xbf" + text + b"\xff", label).repaired
        assert not to_utf8(text, label).repaired
        assert not to_utf8(b"\xef\xbb\xbf" + text, label).repaired
    assert not to_utf8(html(RUSSIAN * 20).encode("cp1251"), "windows-1251").repaired
    assert not to_utf8(b"ascii").repaired


HINDI = "संसद में आज बजट पर चर्चा हुई और वित्त मंत्री ने कई सवालों के जवाब दिए। "
TEXTS = {
    "German": GERMAN,
    "Russian": RUSSIAN,
    "Japanese": JAPANESE,
    "Hindi": HINDI,
    "Thai": "วันนี้รัฐสภาประชุมเรื่องงบประมาณ และรัฐมนตรีตอบคำถามหลายข้อ ",
    "Arabic": "ناقش البرلمان اليوم الميزانية وأجاب الوزير عن أسئلة كثيرة. ",
    "quotes": "“It's done,” she said – “and that’s all.” ",
    "emoji": "😀 🎉 🚀 👍 😀 🎉 ",
}


def doubled(text: str, codec: str) -> bytes:
    """The text in UTF-8, read by windows-1252 (with C1 controls for its gaps) or ISO-8859-1, and written as UTF-8."""
    read = [bytes([byte]).decode(codec) if byte not in b"\x81\x8d\x8f\x90\x9d" else chr(byte) for byte in text.encode()]
    return "".join(read).encode()


@pytest.mark.parametrize("codec", ["cp1252", "latin-1"])
@pytest.mark.parametrize("name", TEXTS)
def test_text_that_was_encoded_twice_is_decoded_once_more(name: str, codec: str) -> None:
    page = html(TEXTS[name] * 3)
    assert undo_double_encoding(doubled(page, codec)) == page.encode()
    assert undo_double_encoding(page.encode()) == page.encode()


@pytest.mark.parametrize("name", TEXTS)
def test_few_or_mixed_doubled_characters_stay(name: str) -> None:
    some = doubled(GERMAN, "cp1252")
    one = html("x Ã¼ " * (LEAST_DOUBLED - 1)).encode()
    assert undo_double_encoding(one) == one
    mixed = html(TEXTS[name]).encode() + some
    changed = undo_double_encoding(mixed)
    assert (
        changed == mixed
        if name not in ("quotes", "emoji")
        else changed in (mixed, (html(TEXTS[name]) + GERMAN).encode())
    )


def test_legitimate_text_with_such_letters_stays() -> None:
    for text in ("MAÇÃ\u00a0E MELÃO, LIMÃO\u00a0E MAMÃO", "À\u00a0« Paris »", "Â£ Ã Ä Å", "naïve café – 20 °C ± 2 µm"):
        body = html(text * 5).encode()
        assert undo_double_encoding(body) == body


def test_hostile_doubled_text_takes_linear_time() -> None:
    for piece in ("Ã¼", "Ã", "Ã¼ÿ", "â€", "Ã\u00a0"):
        few, many = (partial(undo_double_encoding, (piece * size).encode()) for size in (100_000, 800_000))
        assert_cpu_ratio(many, few, most=20, extra=0.2)
