"""[[rules]] and the scope of a registered domain as a user meets them, and the matching against an obvious one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.base.settings.model import Rule
from spotsieve.stream.base.urls import domain_reader, host_of, installed_list
from spotsieve.stream.cli import main
from spotsieve.stream.sign.schemes.url_rules import NO_RULE, UrlMatcher
from tests.fixtures.filter_crawl import article, filter_json, lines, page, read_json, refused

Line = tuple[str, str, str | None]


def at(name: str, url: str, seed: int = 1, more: str = "") -> dict[str, Any]:
    return page(seed, name) | {"url": url, "body": f"<p>{article(seed)} {more}</p>"}


def verdicts(
    capsys: pytest.CaptureFixture[str], directory: Path, pages: list[dict[str, Any]], *given: str
) -> tuple[dict[str, Line], dict[str, Any]]:
    """What becomes of pages, whatever the batches and however often they come; and the summary."""
    crawl, found = directory / "crawl.jsonl", list[dict[str, Line]]()
    crawl.write_bytes(lines(pages))
    for number, size in enumerate((100, 2)):
        out = directory / "verdicts.jsonl"
        state = ("--state", directory / f"state-{size}")
        options = (*given, "--set", f"service.batch_pages={size}", "--verdicts", out, "--force", *state)
        summary = filter_json(capsys, crawl, *options)
        found.append({line["id"]: (line["verdict"], line["reason"], line["duplicate_of"]) for line in read_json(out)})
        filter_json(capsys, crawl, *options)
        again = {line["id"]: (line["verdict"], line["duplicate_of"]) for line in read_json(out)}
        assert again == {name: (kind, original) for name, (kind, _, original) in found[number].items()}
    assert found[0] == found[1]
    return found[0], summary


def rules(*tables: dict[str, Any]) -> tuple[str, str]:
    return "--set", f"rules={json.dumps(tables)}"


def test_exempt_pages_pass_and_are_no_original(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = [
        at("own", "https://www.trusted.example/1"),
        at("other", "https://else.example/1"),
        at("own-again", "https://trusted.example:8080/2"),
        at("below", "https://sub.trusted.example/3"),
    ]
    given = rules({"host": "trusted.example", "exempt": True}, {"host": "nowhere.example", "exempt": True})
    found, summary = verdicts(capsys, tmp_path, pages, *given)
    assert found == {
        "own": ("unchecked", "exempt", None),
        "other": ("novel", "no_match", None),
        "own-again": ("unchecked", "exempt", None),
        "below": ("duplicate", "exact", "other"),
    }
    assert summary["reasons"]["exempt"] == 2
    assert summary["rules"] == {'rule 1 (host = "trusted.example")': 2, 'rule 2 (host = "nowhere.example")': 0}
    assert main(["filter", str(tmp_path / "crawl.jsonl"), *given]) == 0
    message = capsys.readouterr().err
    assert 'rule 2 (host = "nowhere.example") matched no page: compare it with the URLs' in message
    assert "rule 1" not in message


def test_a_threshold_holds_for_the_pages_of_its_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sites = ("strict.example", "plain.example")
    pages = [
        at(f"{site}-{n}", f"https://{site}/{n}", seed, n * "Some more of it. ")
        for seed, site in enumerate(sites)
        for n in range(3)
    ]
    found, _ = verdicts(capsys, tmp_path, pages, *rules({"host_suffix": "strict.example", "threshold": 1.0}))
    assert [found[f"strict.example-{n}"][0] for n in range(3)] == ["novel"] * 3
    assert [found[f"plain.example-{n}"][0] for n in range(3)] == ["novel", "duplicate", "duplicate"]


@pytest.mark.parametrize("scheme", ["spotsieve", "minhash"])
def test_pages_of_a_rule_with_a_scope_meet_only_pages_of_that_scope(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scheme: str
) -> None:
    pages = [
        at("a", "https://a.example/1"),
        at("b-print", "https://b.example/print/1"),
        at("b", "https://b.example/1"),
        at("b-print-2", "https://b.example/print/2"),
        at("c-print", "https://c.example/print/1"),
    ]
    given = (*rules({"url": "https://*/print/*", "scope": "host"}), "--scheme", scheme)
    found, _ = verdicts(capsys, tmp_path, pages, *given)
    assert {name: original for name, (_, _, original) in found.items()} == {
        "a": None,
        "b-print": None,
        "b": "a",
        "b-print-2": "b-print",
        "c-print": None,
    }


@pytest.mark.parametrize("scheme", ["spotsieve", "manku"])
def test_with_the_scope_domain_each_registered_domain_is_as_if_it_were_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scheme: str
) -> None:
    hosts = ("a.shop.co.uk", "b.shop.co.uk", "else.co.uk", "me.github.io", "you.github.io", "192.0.2.1", "192.0.2.2")
    pages = [
        at(f"{host}-{seed}{more[:1]}", f"https://{host}/{seed}", seed, more)
        for seed in (1, 2)
        for more in ("", "Rain fell all day.")
        for host in hosts
    ]
    found, _ = verdicts(capsys, tmp_path, pages, "--set", "index.scope=domain", "--scheme", scheme)
    alone = dict[str, Line]()
    domains = [("a.shop.co.uk", "b.shop.co.uk"), *((host,) for host in hosts[2:])]
    for number, domain in enumerate(domains):
        own = [one for one in pages if host_of(one["url"]) in domain]
        crawl, out = tmp_path / f"{number}.jsonl", tmp_path / f"{number}.verdicts.jsonl"
        crawl.write_bytes(lines(own))
        filter_json(capsys, crawl, "--scheme", scheme, "--verdicts", out)
        alone |= {line["id"]: (line["verdict"], line["reason"], line["duplicate_of"]) for line in read_json(out)}
    assert found == alone
    assert {kind for kind, _, _ in found.values()} == {"novel", "duplicate"}


def test_a_state_is_bound_to_the_rules_and_to_the_public_suffix_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = tmp_path / "crawl.jsonl"
    crawl.write_bytes(lines([at("a", "https://a.example/1")]))
    given = (*rules({"host": "a.example", "scope": "domain"}), "--state", tmp_path / "state")
    filter_json(capsys, crawl, *given)
    code, error = refused(capsys, crawl, "--state", tmp_path / "state")
    assert (code, "rules is [{" in error) == (4, True)
    monkeypatch.setattr("spotsieve.stream.base.settings.model.installed_list", lambda: "9.9 0123")
    code, error = refused(capsys, crawl, *given)
    assert code == 4
    assert f'index.domain_list is "{installed_list()}" in the state and "9.9 0123"' in error
    assert main(["query", str(crawl), "--state", str(tmp_path / "state")]) == 2
    assert f"install publicsuffixlist=={installed_list().split()[0]}" in capsys.readouterr().err


def test_domains_are_those_of_the_list() -> None:
    read = domain_reader()
    hosts = {
        "a.b.example.co.uk": "example.co.uk",
        "x.github.io": "x.github.io",
        "co.uk": "co.uk",
        "10.0.0.1": "10.0.0.1",
    }
    hosts |= {"[::1]": "[::1]", "localhost": "localhost", "": "", "a.xn--85x722f.com.cn": "xn--85x722f.com.cn"}
    assert {host: read(host) for host in hosts} == hosts


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"host": "a.example"}], "rule 1 must set exempt, threshold or scope"),
        ([{"exempt": True}], "rule 1 must select pages by one of host, host_suffix and url, and has none"),
        ([{"host": "a", "url": "http://*", "exempt": True}], "and has host and url"),
        ([{"host": "http://a.example", "exempt": True}], "rule 1 host must be a host name alone"),
        ([{"url": "a.example/x", "exempt": True}], "rule 1 url must match whole URLs"),
        ([{"host": "a.example", "exempt": True, "scope": "host"}], "must not have exempt and scope together"),
        ([{"host": "a.example", "exempt": True}, {"host": "www.a.example", "scope": "host"}], "contradicts rule 1"),
        (
            [{"host_suffix": "a.example", "exempt": True}, {"url": "https://x.a.example/*", "scope": "host"}],
            'can never match: rule 1 (host_suffix = "a.example") matches all of its pages',
        ),
        ([{"host": "a.example", "threshold": 1.5}], "threshold of rule 1 should be less than or equal to 1"),
        ([{"host": "a.example", "scope": "site"}], "rule 1 scope should be 'global', 'host' or 'domain'"),
        ([{"hots": "a.example"}], "rules.0.hots is not a setting"),
    ],
)
def test_a_wrong_rule_is_one_line(given: list[Any], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "--set", f"rules={json.dumps(given)}"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("spotsieve: ")]
    assert message in line.replace(" or ''", "").replace("'', ", "")


def test_a_threshold_of_a_rule_needs_the_default_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    given = rules({"host": "a.example", "threshold": 0.7})
    assert main(["config", "check", *given, "--set", "scheme.name=manku"]) == 2
    assert "threshold of rule 1 must not be given with the scheme manku" in capsys.readouterr().err


def test_rules_stand_in_the_file_behind_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "example"]) == 0
    file = tmp_path / "spotsieve.toml"
    file.write_text(capsys.readouterr().out + '[[rules]]\nhost = "a.example"\nexempt = true\n', "utf-8")
    assert load_settings(file, {}, {}).rules == (Rule(host="a.example", exempt=True),)


HOSTS = ["a.x", "b.a.x", "c.b.a.x", "y", "ba.x"]
URLS = [f"http://{host}/{path}" for host in HOSTS for path in ("", "p", "p/q", "q?p", "[a]*")] + ["", "nothing", "*"]
patterns = st.lists(
    st.sampled_from(["*", "?", "http://", "a.x/", "b.a.x/", "p", "/", "q", "[a]"]), min_size=1, max_size=6
)
drawn_rules = st.lists(
    st.one_of(
        st.sampled_from(HOSTS).map(lambda host: Rule(host=host, exempt=True)),
        st.sampled_from(HOSTS).map(lambda host: Rule(host_suffix=host, exempt=True)),
        patterns.map(lambda parts: Rule(url=f"*{''.join(parts)}"[-40:], exempt=True)),
        patterns.map(lambda parts: Rule(url=f"http://{''.join(parts)}", exempt=True)),
    ),
    max_size=5,
)


def obviously(rule: Rule, url: str) -> bool:
    host = host_of(url)
    if rule.host:
        return host == rule.host
    if rule.host_suffix:
        return host == rule.host_suffix or host.endswith(f".{rule.host_suffix}")
    parts = {"*": ".*", "?": "."}
    pattern = "".join(parts.get(character) or re.escape(character) for character in rule.url)
    return re.fullmatch(pattern, url, re.DOTALL) is not None


@given(drawn_rules)
@settings(deadline=None, max_examples=300)
def test_the_first_rule_that_matches_counts_and_a_refused_one_takes_no_page(drawn: list[Rule]) -> None:
    try:
        found = UrlMatcher(drawn)
    except SettingError as error:
        number = int(re.findall(r"rule (\d+)", str(error))[0]) - 1
        taken = [any(obviously(rule, url) for rule in drawn[:number]) for url in URLS if obviously(drawn[number], url)]
        assert all(taken)
        return
    for url in URLS:
        first = next((number for number, rule in enumerate(drawn) if obviously(rule, url)), NO_RULE)
        assert found.first(url) == first
