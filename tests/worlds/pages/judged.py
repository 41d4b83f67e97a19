"""A person who judges every pair of a review of the demo's crawl according to its truth."""

import json
import re
from pathlib import Path
from typing import Any

from spotsieve.stream.demo.crawl import build_crawl


def review_of(page: Path) -> dict[str, Any]:
    """The text of the review's page."""
    found = re.search(r'id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def judge_by_truth(page: Path, labels: Path) -> list[str]:
    """Write the labels that the page would export, and return them."""
    articles = {sent.url: sent.article for sent in build_crawl()}
    data = review_of(page)
    given, lines = list[str](), [{"review": data["review"]}]
    for pair in data["pairs"]:
        one, other = (articles[side["url"]] for side in pair["sides"])
        given.append("copy" if one == other else "different")
        stratum = data["review"]["strata"][pair["stratum"]]["name"]
        lines.append({"id_a": pair["id_a"], "id_b": pair["id_b"], "label": given[-1], "stratum": stratum})
    labels.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return given
