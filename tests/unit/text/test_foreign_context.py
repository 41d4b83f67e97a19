"""What is opened in inline svg or math ends with it: the page behind reads as if it were not there."""

import numpy as np
import pytest

from spotsieve.stream.sign.features.sieve import SieveSettings, blocks_of, sieve_pages
from spotsieve.stream.sign.text.html.elements import SECTIONS

ARTICLE = "".join(
    f"<p>In the {number}th year the council of the town met on the bridge, and it said that the mill {number} would be "
    f"sold to the owner of the house at number {number * 7} of the street behind the church.</p>"
    for number in range(12)
)
LEFT_OPEN = "article aside figure footer form header main nav select".split()
PREFIXES = [
    *(f"<svg><{name}></svg>" for name in LEFT_OPEN),
    *(f"<math><{name}></math>" for name in LEFT_OPEN),
    "<svg><a href=x></svg>",
    "<svg><a href=x><nav><path d='M0'></svg>",
    "<math><a href=x><mi><a href=y></math>",
    "<svg><nav>" * 20 + "</svg>" * 20,
    # these tags are HTML in an integration point, and end with it
    "<svg><foreignObject><table><ul><pre></svg>",
    "<svg><foreignObject><a href=x><blockquote></svg>",
    "<svg><desc><dl><h1></svg>",
    "<math><mtext><table><ul></math>",
    # foreign content that a tag of HTML ends, as no end tag does
    "<svg><nav><a href=x><b></b>",
    "<math><aside><form></p>",
    # what is hidden, or a template, does not save the context of foreign content for later
    "<svg><nav><style></svg>",
    "<svg><a href=x><title><nav></svg>",
    "<svg><foreignObject><nav><a href=x><template></svg></template>",
    "<svg><foreignObject><nav><style></style></svg>",
    "<svg><nav><template><a href=x></svg>",
]


def features(page: str) -> tuple[int, list[int], list[int]]:
    """How many features a page has, its packed blocks and its sampled shingles."""
    body = np.frombuffer(page.encode(), dtype=np.uint8)
    columns = sieve_pages(body, np.array([0, len(body)]), True, SieveSettings())
    return int(columns.feature_counts[0]), columns.blocks.tolist(), columns.samples.tolist()


@pytest.mark.parametrize("prefix", PREFIXES)
def test_nothing_left_open_in_foreign_content_changes_the_article(prefix: str) -> None:
    for before, behind in (("", ""), ("<nav><a href=y>", "</a></nav>"), ("<article><h1>The mill</h1>", "</article>")):
        plain, attacked = (f"{before}{one}{behind}{ARTICLE}" for one in ("", prefix))
        assert blocks_of(attacked.encode(), True) == blocks_of(plain.encode(), True)
        assert features(attacked) == features(plain)
    assert features(ARTICLE)[0] > 64


@pytest.mark.parametrize(
    ("page", "around"),
    [
        # an HTML tag that ends foreign content stands in the page, and stays open there
        ("<svg><nav><table>x</table>", [("x", 0, {"table"})]),
        ("<svg><ul><li>x</ul>", [("x", 0, {"ul"})]),
        # links and sections outside go on behind it
        ("<nav><a href=x><svg><a></a></svg>x</a></nav>", [("x", 1, {"nav"})]),
        ("<nav><svg><aside></svg>x</nav>y", [("x", 0, {"nav"}), ("y", 0, set())]),
        # an end tag that ends foreign content is one of the page
        ("<nav><svg><path></nav>x", [("x", 0, set())]),
        ("<a href=x><svg><path></a>x", [("x", 0, set())]),
        # in it they count, and words in its links are words in links
        ("<svg><a href=x><text>x y</text></svg>z", [("x y z", 2, set())]),
        ("<svg><foreignObject><nav>x<p></foreignObject></svg>y", [("x", 0, {"nav"}), ("y", 0, set())]),
    ],
)  # fmt: skip
def test_foreign_content_has_a_context_of_its_own(page: str, around: list[tuple[str, int, set[str]]]) -> None:
    found = [
        (
            " ".join(block.tokens),
            block.links,
            {names[0] for bit, names in enumerate(SECTIONS) if block.sections >> bit & 1},
        )
        for block in blocks_of(page.encode(), True)
    ]
    assert found == around
