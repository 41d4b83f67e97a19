"""Finds the character set of a body, even against wrong declarations, and converts the body to UTF-8.

The rules, in this order (except for rules 2 and 3, it is the order of the HTML standard, sec. 13.2.3.2):
1. A byte order mark decides (WHATWG Encoding, "decode": it outranks the header).
2. Bytes that are valid UTF-8 are UTF-8, whatever is declared. Legacy text of any length is practically never valid
UTF-8, while UTF-8 pages with an old iso-8859-1 header are common. Exceptions are character sets whose texts can look
like UTF-8: 7-bit sets with escapes, UTF-16, and CJK sets with few bytes of evidence for UTF-8 (SURE_UTF8_BYTES).
3. Bytes that are UTF-8 except for a few are UTF-8, whatever is declared: a stray byte, or a page cut inside a
character. The invalid sequences become U+FFFD. There must be MIN_VALID_RATIO multi-byte sequences for each invalid one.
4. Of the declared sets (header, then <meta> or XML declaration in the first PRESCAN_BYTES after leading blanks), the
first that decodes without error; otherwise the first in which less than 1 in 8 of the non-ASCII bytes cannot be decoded
(they become U+FFFD).
5. The set detected in DETECT_BYTES from the first byte that is not UTF-8 (faust-cchardet); windows-1252 without a
result.

Text that was encoded twice, as "RÃ¼ckblick" for "Rückblick", is found afterwards, in strings too, and undone where
nearly all of its characters beyond ASCII fit (undo_double_encoding).

The detector was chosen with 20 samples (13 languages, 18 sets, 16 KB of HTML each): faust-cchardet 3.2 gets all right
in 1.0 ms per page, chardet 7.7 all in 3.3 ms, charset-normalizer 3.5 gets 13 right in 2.3 ms (it fails on CJK pages
with an ASCII head).
"""

import codecs
import contextlib
import re
from typing import NamedTuple

import cchardet
from webencodings.labels import LABELS

PRESCAN_BYTES = 16_384
"""The standard says 1,024, but many pages declare their set later, and browsers search further."""
DETECT_BYTES = 16_384
SURE_UTF8_BYTES = 16
MIN_VALID_RATIO = 8
"""Measured on 6,578 legacy texts (38 single-byte and 7 CJK sets; the test files of chardet, converted): no whole text
has as many multi-byte sequences of UTF-8 as invalid ones. Of 2 million pieces of 16 bytes or more, no piece in a
single-byte set has a ratio over 6, and 185 pieces in CJK sets have 8 or more: SURE_UTF8_BYTES counts for these too."""
MAX_BLANKS = 1 << 20
"""Blanks that are skipped before the search for tags: templates write thousands of empty lines before <html>."""
LEAST_DOUBLED = 4
"""The fewest characters that were encoded twice: a page may quote one."""
TRIED_LEADS = 16
_MAX_BAD_SHARE = 1 / 8
_FALLBACK = "cp1252"

# WHATWG encodings whose Python codec has another name, or whose codec decodes only a subset of the standard.
_CODECS = {
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "windows-874": "cp874",
    "iso-8859-8-i": "iso8859-8",
    "x-mac-cyrillic": "mac-cyrillic",
    "macintosh": "mac-roman",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
}
# Labels that the standard does not list, but that crawlers and the detector write. Also sets that the standard maps to
# "replacement" to protect scripts: a filter runs no script, and needs the text.
_MORE_LABELS = {
    "latin-1": "cp1252",
    "cp936": "gb18030",
    "cp932": "cp932",
    "cp949": "cp949",
    "uhc": "cp949",
    "johab": "johab",
    "cp950": "big5hkscs",
    "big5-hkscs": "big5hkscs",
    "hz-gb-2312": "hz",
    "hz": "hz",
    "iso-2022-kr": "iso2022_kr",
    "csiso2022kr": "iso2022_kr",
    "ibm855": "cp855",
    "ibm852": "cp852",
    "mac-centraleurope": "mac-latin2",
    "euc-jis-2004": "euc_jis_2004",
}
_UTF16 = ("utf-16-le", "utf-16-be")
_UTF16_TAGS = (b"<\0", b"\0<")
"""How a page in UTF-16 begins. The label utf-16 stands for one of the two orders, also where servers mean the other."""
_SEVEN_BIT = frozenset({"iso-2022-jp", "iso2022_kr", "hz"})
_CJK = frozenset({"gb18030", "cp932", "euc-jp", "big5hkscs", "cp949", "johab", "euc_jis_2004"})

# An attribute as the HTML standard reads it: a quotation mark is special only as the first character of a value.
_NAME = rb"[^\s/>][^\s/>=]*+"
_VALUE = rb"""\s*+=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^\s>]*+)"""
_ATTRIBUTES = rb"((?:[\s/]++|" + _NAME + rb"(?:" + _VALUE + rb")?+(?!\s*+=))*+)>"
_TOKEN = re.compile(
    rb"<!--(?:.*?-->|.*)|<meta(?=[\s/])" + _ATTRIBUTES + rb"|</?[a-z]" + _ATTRIBUTES + rb"|<[!/?][^>]*>"
    rb"|(?P<open><[a-z!/?])",
    re.IGNORECASE | re.DOTALL,
)
_MAX_OPEN_TAGS = 32
"""The search stops after this number of unclosed tags, because it reads each of them to the end of the head."""
_ATTRIBUTE = re.compile(rb"(" + _NAME + rb")(?:" + _VALUE.replace(rb"(?:", rb"(", 1) + rb")?+")
_CONTENT_CHARSET = re.compile(rb"""charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;"']+))""", re.IGNORECASE)
_BLANKS = re.compile(rb"(?:[\t\n\v\f\r ]++|\xc2\xa0|\xef\xbb\xbf)*+")
_XML_DECLARATION = re.compile(rb"""\s{0,64}<\?xml[^>]{0,256}?encoding\s*=\s*["']([^"'>]{1,64})["']""", re.IGNORECASE)


def find_codec(label: str | None) -> str | None:
    """The Python codec for a charset label by the WHATWG label table; None for an unknown label."""
    if not label:
        return None
    label = label.strip("\t\n\f\r \"'").lower()
    more = _MORE_LABELS.get(label)
    if more:
        return more
    name: str | None = LABELS.get(label)
    if name is None or name in ("replacement", "x-user-defined"):
        return None
    return _CODECS.get(name, name)


_BYTE_OF = {code: code for code in range(0x80, 0x100)} | {
    ord(bytes([code]).decode(_FALLBACK)): code
    for code in range(0x80, 0xA0)
    if code not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
"""The byte that windows-1252 or ISO-8859-1 reads as a character."""
_DOUBLED_RUN = re.compile(f"[{''.join(map(chr, sorted(_BYTE_OF)))}]+")
_DOUBLED_SECONDS = frozenset(bytes([byte]) for byte in b"\xc2\xc5\xc6\xcb\xe2")
"""Behind the two bytes of a first character, the first byte of a second one, where a character was encoded twice."""


def _table(codec: str, changes: dict[int, str]) -> str:
    """The characters of a single-byte set, where changes has those that Python's codec lacks. U+FFFE is undefined."""
    characters = bytes(range(256)).decode(codec, "replace").replace("\ufffd", "\ufffe")
    return "".join(changes.get(byte, character) for byte, character in enumerate(characters))


_TABLES = {
    "koi8-u": _table("koi8-u", {0xAE: "ў", 0xBE: "Ў"}),
    "windows-1255": _table("windows-1255", {0xCA: "\u05ba"}),
}
_VENDOR_2022 = dict(
    zip(
        (*range(0xE78D, 0xE797), 0xE81E, 0xE826, 0xE82B, 0xE82C, 0xE832, 0xE843, 0xE854, 0xE864, 0xE5E5, 0xE7C7),
        "︐︒︑︓︔︕︖︗︘︙龴龵龶龷龸龹龺龻\u3000\u1e3f",
        strict=True,
    )
)
"""Characters of GB 18030 that have a place of their own since 2022, by the private characters of Python's codec."""
_PRIVATE = re.compile("[\ue5e5\ue78d-\ue864]")
_EUC_JP_FIRST, _ROW_BYTES = 0xA1, 94


def _vendor_kanji() -> dict[bytes, str]:
    """The characters of NEC and IBM, such as ① and 髙, by their bytes in EUC-JP.

    Python's codec rejects them. In Shift_JIS they have the same rows and columns, and Python's cp932 knows them.
    """
    found = dict[bytes, str]()
    for row in (0xAD, *range(0xF9, 0xFD)):
        for column in range(_EUC_JP_FIRST, _EUC_JP_FIRST + _ROW_BYTES):
            lead, trail = divmod((row - _EUC_JP_FIRST) * _ROW_BYTES + column - _EUC_JP_FIRST, 188)
            pair = bytes([lead + (0x81 if lead < 0x1F else 0xC1), trail + (0x40 if trail < 0x3F else 0x41)])
            with contextlib.suppress(UnicodeDecodeError):
                found[bytes([row, column])] = pair.decode("cp932")
    return found


_VENDOR_KANJI = _vendor_kanji()
_EUC_JP = re.compile(
    rb"((?:[^\x8e\x8f\xa1-\xfe]|\x8f[\xa1-\xfe]{2}|\x8e[\xa1-\xfe]|(?![\xad\xf9-\xfc])[\xa1-\xfe]{2}"
    rb"|(?![\xad\xf9-\xfc][\xa1-\xfe])[\x8e\x8f\xa1-\xfe])*+)([\xad\xf9-\xfc][\xa1-\xfe]|\Z)"
)
"""Text without characters of the rows of NEC and IBM, and one of these, or nothing at the end."""


def _decode_euc_jp(body: bytes, errors: str) -> str:
    with contextlib.suppress(UnicodeDecodeError):
        return body.decode("euc-jp")
    pieces = list[str]()
    for text, pair in _EUC_JP.findall(body):
        pieces.append(text.decode("euc-jp", errors))
        pieces.append(_VENDOR_KANJI.get(pair) or pair.decode("euc-jp", errors))
    return "".join(pieces)


_SET_2022_JP = rb"\x1b(\([BJI]|\$[@B]|\$\(D)"
_TEXT_2022_JP = re.compile(
    rb"(?:\A|" + _SET_2022_JP + rb")((?:[^\x1b]++|(?!" + _SET_2022_JP.replace(b"1b(", b"1b(?:") + rb")\x1b)*+)"
)
"""The text between two escapes, with the set that the first of them chooses."""
_ASCII_IN_EUC_JP = bytes(code if code < 0x80 else 0xFF for code in range(256))
_KANJI_IN_EUC_JP = bytes(code | 0x80 if 0x20 < code < 0x7F else _ASCII_IN_EUC_JP[code] for code in range(256))
_KANA, _TWO_BYTES = re.compile(rb"[\xa1-\xdf]"), re.compile(rb"[\xa1-\xfe]{2}")


def _decode_iso_2022_jp(body: bytes, errors: str) -> str:
    """Decode ISO-2022-JP as EUC-JP, which has the same characters, and those of NEC and IBM and half-width kana too."""
    with contextlib.suppress(UnicodeDecodeError):
        return body.decode("iso-2022-jp")
    return _decode_euc_jp(_TEXT_2022_JP.sub(_in_euc_jp, body), errors)


def _in_euc_jp(text: re.Match[bytes]) -> bytes:
    if text[1] in (None, b"(B", b"(J"):
        return text[2].translate(_ASCII_IN_EUC_JP)
    kanji = text[2].translate(_KANJI_IN_EUC_JP)
    if text[1] == b"(I":
        return _KANA.sub(b"\x8e\\g<0>", kanji)
    return _TWO_BYTES.sub(b"\x8f\\g<0>", kanji) if text[1] == b"$(D" else kanji


def _decode(body: bytes, codec: str, *, strict: bool = False) -> str:
    """The text of a body, also where the standard's set has characters that Python's codec lacks.

    strict: raise UnicodeError for other bytes; otherwise they become U+FFFD
    """
    errors = "strict" if strict else "replace"
    if codec == "euc-jp":
        return _decode_euc_jp(body, errors)
    if codec == "iso-2022-jp":
        return _decode_iso_2022_jp(body, errors)
    if codec in _TABLES:
        return codecs.charmap_decode(body, errors, _TABLES[codec])[0]
    text = body.decode(codec, errors)
    if codec == "gb18030":
        return _PRIVATE.sub(lambda found: _VENDOR_2022.get(ord(found[0]), found[0]), text)
    return text


class DecodedBody(NamedTuple):
    """A body in UTF-8. repaired: whether it was UTF-8 with invalid sequences, which are now U+FFFD"""

    text: bytes
    repaired: bool = False


def to_utf8(body: bytes, header_label: str | None = None) -> DecodedBody:
    """The body in UTF-8, by the rules above; it never fails. A body that is UTF-8 already is returned unchanged.

    header_label: the charset of the Content-Type header, or None
    """
    marked = _by_mark(body)
    if marked is not None:
        return marked
    declared = find_codec(header_label)
    if body.isascii():
        return DecodedBody(_from_ascii(body, declared))
    if _is_utf16(body, declared):
        return DecodedBody(_transcode(body, _utf16_order(body, declared)))
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        return _from_legacy(body, declared, error.start)
    if len(body) - len(text) < SURE_UTF8_BYTES:
        if declared in _CJK:
            return DecodedBody(_strict(body, declared) or body)
        if codec := _seven_bit_set(body, declared):
            return DecodedBody(_transcode(body, codec))
    return DecodedBody(body)


def undo_double_encoding(body: bytes) -> bytes:
    """The body with the text that was encoded as UTF-8 twice, by way of windows-1252 or ISO-8859-1, decoded once.

    body: valid UTF-8. It is returned unchanged unless it has LEAST_DOUBLED such characters, and MIN_VALID_RATIO of them
    for each other character beyond ASCII. Most of the first TRIED_LEADS bytes that such a character can begin with must
    begin one, so the common case costs a short search.
    """
    at, tried, doubled = body.find(b"\xc3"), 0, 0
    while at >= 0 and tried < TRIED_LEADS:
        tried += 1
        doubled += body[at + 2 : at + 3] in _DOUBLED_SECONDS
        at = body.find(b"\xc3", at + 1)
    if 2 * doubled <= tried:
        return body
    text, undone = body.decode("utf-8", "replace"), 0

    def undo(run: re.Match[str]) -> str:
        nonlocal undone
        try:
            decoded = bytes(map(_BYTE_OF.__getitem__, map(ord, run[0]))).decode()
        except UnicodeDecodeError:
            return run[0]
        undone += len(decoded)
        return decoded

    found = _DOUBLED_RUN.sub(undo, text)
    others = len(found) - len(found.encode("ascii", "ignore")) - undone
    return found.encode() if undone >= max(LEAST_DOUBLED, MIN_VALID_RATIO * others) else body


def skip_blanks(body: bytes) -> int:
    """The offset of the first byte that is not white space or a byte order mark; MAX_BLANKS at most."""
    match = _BLANKS.match(body, 0, MAX_BLANKS)
    return match.end() if match else 0


def declared_in_markup(body: bytes) -> str | None:
    """The first known charset label of <meta charset>, <meta http-equiv> or the XML declaration; None without one.

    It follows "prescan a byte stream" of the HTML standard, and in addition skips leading white space and reads the XML
    declaration and more bytes.
    """
    start = skip_blanks(body)
    head = body[start : start + PRESCAN_BYTES]
    declaration = _XML_DECLARATION.match(head)
    if declaration and (label := _known_label(declaration.group(1))):
        return label
    still_open = 0
    for token in _TOKEN.finditer(head):
        if token["open"] is not None:
            still_open += 1
            if still_open > _MAX_OPEN_TAGS:
                return None
        elif token.group(1) is not None:
            label = _known_label(_meta_label(token.group(1)))
            if label:
                return label
    return None


def _known_label(label: bytes | None) -> str | None:
    """The label in markup; None if it names no character set. Markup readable as ASCII is not UTF-16, but UTF-8."""
    text = (label or b"").decode("ascii", "replace")
    codec = find_codec(text)
    return "utf-8" if codec in _UTF16 else text if codec else None


def _meta_label(attributes: bytes) -> bytes | None:
    values: dict[bytes, bytes] = {}
    for name, value in _ATTRIBUTE.findall(attributes):
        values.setdefault(name.lower(), value[1:-1] if value[:1] in (b'"', b"'") else value)
    label = values.get(b"charset")
    if not label and values.get(b"http-equiv", b"").lower() == b"content-type":
        found = _CONTENT_CHARSET.search(values.get(b"content", b""))
        label = next(filter(None, found.groups()), None) if found else None
    return label or None


def _by_mark(body: bytes) -> DecodedBody | None:
    if body.startswith(codecs.BOM_UTF8):
        rest = body[len(codecs.BOM_UTF8) :]
        return DecodedBody(rest) if _is_utf8(rest) else DecodedBody(_transcode(rest, "utf-8"), repaired=True)
    if body.startswith(codecs.BOM_UTF16_LE):
        return DecodedBody(_transcode(body[2:], "utf-16-le"))
    if body.startswith(codecs.BOM_UTF16_BE):
        return DecodedBody(_transcode(body[2:], "utf-16-be"))
    return None


def _from_ascii(body: bytes, declared: str | None) -> bytes:
    # ASCII bytes mean the same in all other sets. The search for the escape costs one memchr.
    if _is_utf16(body, declared):
        return _transcode(body, _utf16_order(body, declared))
    codec = _seven_bit_set(body, declared)
    return _transcode(body, codec) if codec else body


def _seven_bit_set(body: bytes, declared: str | None) -> str | None:
    """The 7-bit set with escapes that a body is in; None for other bodies."""
    has_escapes = b"\x1b" in body
    if not has_escapes and b"~{" not in body:
        return None
    codec = declared if declared in _SEVEN_BIT else find_codec(declared_in_markup(body))
    if codec in _SEVEN_BIT and has_escapes != (codec == "hz"):
        return codec
    return "iso-2022-jp" if b"\x1b$B" in body or b"\x1b$@" in body else None


def _is_utf16(body: bytes, declared: str | None) -> bool:
    return (declared in _UTF16 and b"\0" in body[:256]) or body[:2] in _UTF16_TAGS


def _utf16_order(body: bytes, declared: str | None) -> str:
    if declared in _UTF16 and body[:2] not in _UTF16_TAGS:
        return declared
    return "utf-16-be" if body[:1] == b"\0" else "utf-16-le"


def _from_legacy(body: bytes, header: str | None, first_bad: int) -> DecodedBody:
    declared = [codec for codec in dict.fromkeys((header, find_codec(declared_in_markup(body)))) if codec]
    not_ascii = len(body) - len(body.translate(None, _NOT_ASCII))
    if not_ascii < SURE_UTF8_BYTES and (codec := _seven_bit_set(body, header)):
        return DecodedBody(_transcode(body, codec))
    repaired = _repair_utf8(body, not_ascii, SURE_UTF8_BYTES if _CJK.intersection(declared) else 0)
    if repaired is not None:
        return DecodedBody(repaired, repaired=True)
    for codec in declared:
        utf8 = _strict(body, codec) if codec != "utf-8" else None
        if utf8 is not None:
            return DecodedBody(utf8)
    for codec in declared:
        text = _decode(body, codec)
        if text.count("\ufffd") <= max(1, not_ascii * _MAX_BAD_SHARE):
            return DecodedBody(text.encode("utf-8", "replace"), repaired=codec == "utf-8")
    start = max(0, first_bad - 256)
    found = cchardet.detect(body[start : start + DETECT_BYTES])["encoding"]
    return DecodedBody(_transcode(body, find_codec(found) or _FALLBACK))


_NOT_ASCII = bytes(range(128, 256))


def _repair_utf8(body: bytes, not_ascii: int, min_trail_bytes: int) -> bytes | None:
    """Replace each invalid sequence of the body by U+FFFD; None if the body has too few valid sequences.

    not_ascii: number of bytes from 128 to 255 in the body
    min_trail_bytes: number of trail bytes that valid sequences must have
    """
    text = body.decode("utf-8", "replace")
    invalid = text.count("\ufffd") - body.count("\ufffd".encode())
    valid = len(text) - (len(body) - not_ascii) - invalid
    if valid < MIN_VALID_RATIO * invalid or not_ascii - valid - invalid < min_trail_bytes:
        return None
    return text.encode()


def _strict(body: bytes, codec: str) -> bytes | None:
    try:
        return _decode(body, codec, strict=True).encode()
    except UnicodeError:
        return None


def _transcode(body: bytes, codec: str) -> bytes:
    return _decode(body, codec).encode("utf-8", "replace")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
