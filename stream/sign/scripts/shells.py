"""Recognises shells: pages whose visible text is only the frame of an application that a script would fill."""

import html
import re

from spotsieve.stream.sign.scripts.prose import MARKUP, count_words

SHELL_WORDS = 32
"""Most visible words, outside links, of a shell with an empty root element."""
_LOADING_WORDS, _WARNING_WORDS = 6, 12
"""Most visible words of a shell that says that it loads; outside links, of one that asks for JavaScript."""
_MENU_WORDS = 200
"""Most visible words of a shell, with those of its links."""

_BESIDE = frozenset("a button footer header nav select".split())
_ROOTS = frozenset("div main section span".split())
_IDS = (
    r"""id=["']?(?:root|app|application|__next|__nuxt|___gatsby|svelte|spa|mount|q-app|"""
    r"""(?:app|react|vue|main|page|site|spa)[-_]?(?:root|app|mount|container|main|shell))(?=["'\s>])"""
)
_ROOT_ID = re.compile(rf"\s{_IDS}", re.IGNORECASE)
# Each begins with a literal, so searching for it is five times as fast.
_SOME_ROOT = (re.compile(_IDS.encode()), re.compile(rb"></[a-z]+-"))
_JAVASCRIPT = re.compile(r"java\s?script|ジャバスクリプト|자바스크립트|джава\s?скрипт|جافا\s?سكريبت", re.IGNORECASE)
_LOADING = re.compile(
    r"loading|please wait|one moment|just a moment|chargement|patienter|\bladen\b|geladen|lädt|laadt|cargando|espere|"
    r"carregando|aguarde|caricamento|attend|загру|завантаж|подожд|зарежд|wczytyw|ładowan|načít|betölt|yükleni|bekle|"
    r"đang tải|memuat|laster|laddar|indlæs|ladataan|φόρτωσ|încarc|učitav|加载|载入|加載|載入|读取|讀取|読み込|ロード|"
    r"お待ち|로딩|로드|불러오|تحميل|بارگذاری|טוען|โหลด|लोड|লোড",
    re.IGNORECASE,
)


def is_shell(body: bytes, words: int) -> bool:
    """Whether an HTML page with scripts shows no text of its own. words: about the number of its words outside links"""
    if words > _WARNING_WORDS and not any(some.search(body) for some in _SOME_ROOT):
        return False
    source = body.decode("utf-8", "replace")
    visible, own, warnings = list[str](), list[str](), list[str]()
    start, depth, has_root, root = 0, 0, False, ""
    for tag in MARKUP.finditer(source):
        text, start = source[start : tag.start()], tag.end()
        visible.append(text)
        if depth == 0:
            own.append(text)
        if text.strip():
            root = ""
        name, ends = (tag["tag"] or "").lower(), bool(tag["end"])
        if name in _BESIDE:
            depth = max(0, depth - 1) if ends else depth + 1
        if (tag["unseen"] or "").lower() == "noscript":
            warnings.append(tag[0])
        if name:
            has_root = has_root or (ends and name == root)
            is_root = not ends and ("-" in name or (name in _ROOTS and _ROOT_ID.search(tag[0]) is not None))
            root = name if is_root else ""
    visible.append(source[start:])
    shown, outside = _words_of(visible), _words_of([*own, *visible[-1:]] if depth == 0 else own)
    total, words = count_words(shown), count_words(outside)
    if not shown or (total <= _LOADING_WORDS and _LOADING.search(shown)):
        return True
    if total > _MENU_WORDS or words > SHELL_WORDS:
        return False
    return has_root or (words <= _WARNING_WORDS and any(_JAVASCRIPT.search(text) for text in (shown, *warnings)))


def _words_of(pieces: list[str]) -> str:
    return " ".join(html.unescape(" ".join(pieces)).split())
