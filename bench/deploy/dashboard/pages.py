"""The dashboard's first row, and the rows for verdicts, hosts and text of pages."""

from bench.deploy.dashboard.panels import graph, heatmap, number, row, stacked
from bench.deploy.dashboard.queries import gained, query, rate

FIRING = 'ALERTS{alertname=~"Spotsieve.*", alertstate="firing"}'

ROWS = (
    row(
        "Is it well?",
        number(
            "Ready workers",
            "Workers that judge pages now.",
            query("sum(spotsieve_ready)"),
            colors=((None, "red"), (1, "green")),
            width=3,
        ),
        number(
            "Firing alerts",
            "Alerts of deploy/prometheus/alerts.yml that fire now. docs/runbook.md has a section for each.",
            query(f"sum({FIRING}) or vector(0)"),
            colors=((None, "green"), (1, "red")),
            width=3,
        ),
        number(
            "Waiting pages",
            "Messages in the input topic that are not committed yet, over all partitions.",
            query("sum(spotsieve_consumer_lag)"),
            colors=((None, "green"), (1000, "orange"), (100000, "red")),
            width=3,
        ),
        number(
            "Pages judged",
            "Pages judged and committed each second.",
            rate("spotsieve_pages_total"),
            unit="cps",
            width=3,
        ),
        number(
            "Share dropped",
            "Duplicates among the pages judged.",
            query(
                'sum(rate(spotsieve_pages_total{verdict="duplicate"}[$__rate_interval])) / '
                "sum(rate(spotsieve_pages_total[$__rate_interval]))"
            ),
            unit="percentunit",
            width=3,
        ),
        number(
            "Dead letters",
            "Messages in the shown time that are not pages. They are in the rejected topic.",
            query("sum(increase(spotsieve_dead_letters_total[$__range])) or vector(0)"),
            colors=((None, "green"), (1, "red")),
            width=3,
        ),
        number(
            "Least free disk",
            "The smallest free share of a state's file system, over all workers and shards.",
            query("min(spotsieve_disk_free_bytes / spotsieve_disk_size_bytes)"),
            unit="percentunit",
            colors=((None, "red"), (0.15, "green")),
            width=3,
        ),
        number(
            "Pages indexed",
            "Novel pages indexed in the state (the maximum over workers: each holds the whole state).",
            query("max(spotsieve_state_entries)"),
            width=3,
        ),
        stacked(
            "Firing alerts by name",
            "If an alert fires, the rows 'Why not?' below show its cause.",
            query(f"sum by (alertname) ({FIRING}) or vector(0)", legend="{{alertname}}"),
            width=12,
        ),
        stacked(
            "Pages by verdict",
            (
                "Novel pages are emitted, duplicates leave the stream, and unchecked pages are emitted because they "
                "could not be judged."
            ),
            rate("spotsieve_pages_total", by="verdict"),
            unit="cps",
            width=12,
        ),
    ),
    row(
        "What is dropped: verdicts",
        graph(
            "Pages by reason",
            "Why a page got its verdict.",
            rate("spotsieve_pages_total", by="verdict, reason", legend="{{verdict}}: {{reason}}"),
            unit="cps",
            width=12,
        ),
        graph(
            "Longer or better copies emitted",
            (
                "Pages that supersede their original because they are longer, newer or of a better rank (policy.keep). "
                "0 where the first page is kept."
            ),
            rate("spotsieve_pages_total", by="reason", where='reason=~"longer|better"'),
            unit="cps",
        ),
        stacked(
            "Bytes by verdict",
            "Bytes of messages committed.",
            rate("spotsieve_page_bytes_total", by="verdict"),
            unit="Bps",
        ),
        heatmap(
            "Page size",
            "Body size of the pages.",
            rate("spotsieve_page_size_bytes_bucket", by="le"),
            unit="bytes",
            width=8,
        ),
        stacked(
            "Dead letters by reason",
            ("Messages that are not pages. They are in the rejected topic, unchanged, with the reason in a header."),
            rate("spotsieve_dead_letters_total", by="reason", or_zero=True),
            unit="cps",
            width=8,
        ),
        graph(
            "Tombstones",
            "Messages without a value, emitted unchanged.",
            rate("spotsieve_tombstones_total", legend="tombstones"),
            unit="cps",
            width=4,
        ),
        graph(
            "Messages lost to retention",
            (
                "Messages that the input topic's retention removed before they were read: raise the topic's "
                "retention or add workers."
            ),
            gained("spotsieve_expired_messages_total", legend="lost"),
            width=4,
        ),
        graph(
            "Pages of each rule",
            "Pages that each of [[rules]] matches. A rule that stays at 0 matches no page of the input.",
            rate("spotsieve_rule_pages_total", by="rule", legend="{{rule}}"),
            unit="cps",
        ),
    ),
    row(
        "What is dropped: hosts",
        graph(
            "Hosts with most dropped pages",
            (
                "Workers expose the hosts with most pages and the hosts with most dropped pages. `spotsieve top` "
                "shows them live."
            ),
            query(
                "topk(10, sum by (host) (rate(spotsieve_host_dropped_pages_total[$__rate_interval])) > 0)",
                legend="{{host}}",
            ),
            unit="cps",
            width=8,
        ),
        graph(
            "Share dropped of the largest hosts",
            "The ten hosts with most pages. SpotsieveHostShareOutOfBand watches the share of each over an hour.",
            query(
                "sum by (host) (rate(spotsieve_host_dropped_pages_total[$__rate_interval]))"
                " / topk(10, sum by (host) (rate(spotsieve_host_pages_total[$__rate_interval])) > 0)",
                legend="{{host}}",
            ),
            unit="percentunit",
            width=8,
        ),
        graph(
            "Hosts with most pages",
            "Pages committed each second.",
            query(
                "topk(10, sum by (host) (rate(spotsieve_host_pages_total[$__rate_interval])) > 0)", legend="{{host}}"
            ),
            unit="cps",
            width=8,
        ),
    ),
    row(
        "What is dropped: text and evidence",
        graph(
            "Pages by language",
            (
                "The ten most frequent languages, by the stop words of the main text. und: no word list fits, or too "
                "few words. unspaced: a script without spaces. The scheme chain does not detect languages and counts "
                "all pages as und."
            ),
            query(
                "topk(10, sum by (language) (rate(spotsieve_page_languages_total[$__rate_interval])) > 0)",
                legend="{{language}}",
            ),
            unit="cps",
            width=8,
        ),
        graph(
            "Pages by text",
            (
                "How the main text was found. kept: by the scorecards. in_need: the main text was too short, so the "
                "next best blocks were added. too_little: fewer features than scheme.min_features. none: no text, or "
                "no readable text. A rising in_need or too_little means that pages changed, or that a site shows "
                "crawlers another page."
            ),
            rate("spotsieve_page_texts_total", by="text"),
            unit="cps",
            width=8,
        ),
        graph(
            "Duplicates by evidence",
            (
                "By each kind of key that a duplicate shares with its original; a page may count under several. body: "
                "the same bytes. text: the same main text. tables: near fingerprints. minhash: a common MinHash "
                "value. block_fingerprints: a common block. title: the same title words. url: the same text and URL."
            ),
            rate("spotsieve_duplicates_by_key_total", by="key"),
            unit="cps",
            width=8,
        ),
    ),
)
