"""Published archives and tests are compared by rules that find a difference, and name its reason."""

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from bench.published import archives, standards
from bench.published.archives import CaptureBody, compare, find_reason, unpack
from bench.published.repositories import Repository, RepositoryFile, commit_of, files_of
from tests.fixtures.pages.warc_records import HTML, http, warc


def file_of(*records: bytes, name: str = "a/b/c.warc") -> RepositoryFile:
    return RepositoryFile(name, b"".join(records))


@pytest.mark.parametrize("library", ["warcio", "FastWARC"])
def test_equal_bodies_are_counted_and_no_difference(library: str) -> None:
    equal = Counter[str]()
    records = [warc(http()), warc(b"plain", "resource", Content_Type="text/plain"), warc(b"x", "warcinfo")]
    assert list(compare(file_of(*records), library, equal)) == []
    assert equal == {library: 2}


def test_a_body_that_the_filter_reads_differently_is_a_difference_without_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archives, "read_ours", lambda _: iter([CaptureBody("https://example.com/a", HTML[1:])]))
    equal = Counter[str]()
    (found,) = compare(file_of(warc(http())), "warcio", equal)
    assert (found.reason, equal) == ("", Counter())
    monkeypatch.setattr(archives, "read_ours", lambda _: iter([]))
    (found,) = compare(file_of(warc(http())), "warcio", equal)
    assert (found.reason, found.ours) == ("", "no capture")


@pytest.mark.parametrize(
    ("theirs", "own", "reason"),
    [
        (CaptureBody("u", b"", "OSError: x"), CaptureBody("u", b"text"), "library"),
        (CaptureBody("dns:u", b"x"), None, "dns"),
        (CaptureBody("u", b"x"), CaptureBody("u", b"", "truncated: x"), "short"),
        (CaptureBody("u", b"x"), CaptureBody("u", b"", "bad_warc: x"), "header"),
        (CaptureBody("u", b"x"), CaptureBody("u", b"x", whole=False), "cut"),
        (CaptureBody("u", b""), CaptureBody("u", b"x"), "raw"),
        (CaptureBody("u", b""), CaptureBody("u", b"\n"), "blank"),
        (CaptureBody("u", b"x"), CaptureBody("u", b"y"), ""),
        (CaptureBody("u", b"x"), CaptureBody("u", b"y", whole=False), ""),
        (CaptureBody("u", b"x"), None, ""),
    ],
)
def test_the_reason_of_a_difference_is_found(theirs: CaptureBody, own: CaptureBody | None, reason: str) -> None:
    assert find_reason(theirs, own, [own] if own else []) == reason


def test_a_blank_in_a_url_is_the_reason_only_for_equal_bodies() -> None:
    theirs = CaptureBody("u%20v", b"x")
    assert find_reason(theirs, None, [CaptureBody("u v", b"x")]) == "url"
    assert find_reason(theirs, None, [CaptureBody("u v", b"y")]) == ""


def test_the_files_of_a_clone_are_read_at_its_commit(tmp_path: Path, git_repository: Path) -> None:
    repository = Repository("owner/name", r"\.warc$")
    assert [file.place for file in files_of(repository, tmp_path)] == ["owner/name/folder/a.warc"]
    (git_repository / "folder" / "a.warc").write_bytes(b"changed")
    (file,) = files_of(repository, tmp_path)
    assert file.content == b"committed"
    assert len(commit_of(repository, tmp_path) or "") == 12


def test_a_wacz_is_unpacked_and_a_damaged_one_has_no_files() -> None:
    assert list(unpack(RepositoryFile("a/b/c.wacz", b"PK\x03\x04 damaged"))) == []
    assert [file.place for file in unpack(file_of())] == ["a/b/c.warc"]


@pytest.fixture
def git_repository(tmp_path: Path) -> Path:
    tree = tmp_path / "owner+name"
    (tree / "folder").mkdir(parents=True)
    (tree / "folder" / "a.warc").write_bytes(b"committed")
    (tree / "readme.txt").write_bytes(b"text")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "Add files", "--no-verify")):
        subprocess.run(["git", "-C", str(tree), *command], check=True)
    return tree


def case_file(text: str | bytes, name: str = "a/b/c.dat") -> RepositoryFile:
    return RepositoryFile(name, text.encode() if isinstance(text, str) else text)


TREE = """#data
<p>One <b>two</b><!-- x --><title>three</title>
four
#errors
#document
| <html>
|   <head>
|   <body>
|     <p>
|       "One "
|       <b>
|         "{word}"
|       <!--  x  -->
|       <title>
|         "three"
|       "
four"
"""


def test_a_tree_passes_by_its_visible_words_and_fails_by_another_word() -> None:
    (case,) = standards.trees(case_file(TREE.replace("{word}", "two")))
    assert case is not None
    assert case.expected == case.found == ["one", "two", "four"]
    (case,) = standards.trees(case_file(TREE.replace("{word}", "lost")))
    assert case is not None
    assert (case.expected, case.found, case.reason) == (["one", "lost", "four"], ["one", "two", "four"], "")


def test_a_lost_word_has_no_reason_in_a_table_and_a_moved_one_has() -> None:
    page = "x<table>y"
    assert standards.find_word_reason(page, ["xy"], ["x", "y"]) == "moved"
    assert standards.find_word_reason(page, ["x", "y", "z"], ["x", "y"]) == ""
    assert standards.find_word_reason("<p>x", ["x"], ["x", "y"]) == ""


def test_a_fragment_is_left_out() -> None:
    assert list(standards.trees(case_file(TREE.replace("#document", "#document-fragment\nbody\n#document")))) == [None]


def test_the_characters_of_tokens_are_words() -> None:
    output = [["Character", "a"], ["StartTag", "b", {}], ["Character", "b"], ["StartTag", "p", {}], ["Character", "é"]]
    test = {"input": "a<b>b<p>&eacute;", "output": output}
    escaped = {"input": "\\u0061", "output": [["Character", "\\u0061"]], "doubleEscaped": True}
    other = {"input": "a", "output": [], "initialStates": ["RCDATA state"]}
    hidden = {"input": "<title>a", "output": [["StartTag", "title", {}], ["Character", "a"]]}
    found = list(standards.tokens(case_file(json.dumps({"tests": [test, escaped, other, hidden]}))))
    assert [case and (case.expected, case.found) for case in found] == [
        (["ab", "é"], ["ab", "é"]),
        (["a"], ["a"]),
        None,
        None,
    ]


def test_labels_indexes_types_and_declarations_are_read_by_the_intake() -> None:
    sets = [{"encodings": [{"name": "GBK", "labels": ["gb2312", "no label"]}]}]
    assert [case and case.expected == case.found for case in standards.labels(case_file(json.dumps(sets)))] == [
        True,
        False,
    ]
    rows = "# Index\n\n  0\t0x3000\tx\n 188\t0x4E9C\tx\n"
    found = list(standards.index(case_file(rows, "a/b/index-jis0208.txt")))
    assert [case and (case.text, case.expected == case.found) for case in found] == [
        ("euc-jp a1a1", True),
        ("shift_jis 8140", True),
        ("euc-jp a3a1", False),
        ("shift_jis 8240", False),
    ]
    types = ["Basics", {"input": "text/html;charset=gbk", "output": "text/html;charset=gbk", "encoding": "GBK"}]
    assert [case and case.expected == case.found for case in standards.content_types(case_file(json.dumps(types)))] == [
        True,
        True,
    ]
    pages = b"#data\n<meta charset=gbk>\n#encoding\nGBK\n\n#data\n\xef\xbb\xbf<meta charset=gbk>\n#encoding\nutf-8\n"
    pages += b"\n#data\n<p>x\n#encoding\nGBK\n"
    assert [case and case.expected == case.found for case in standards.declarations(case_file(pages))] == [
        True,
        True,
        False,
    ]
