"""The scorecard by the letter of stream/features/scorecard.py: the twin of the selection of blocks."""

from bisect import bisect_right

from stream.features import scorecard
from stream.features.scorecard import GROUPS, frozen_points
from stream.text.elements import LEAD_PLAIN, LEAD_QUOTED, SECTIONS
from tests.reference.blocks import Noted


def reasons_of(blocks: list[Noted]) -> list[str]:
    """The reason of each block of a page, "kept" for those that are kept."""
    flat, threshold = frozen_points()
    points, start = {}, 0
    for group, size in GROUPS.items():
        points[group] = flat[start : start + size].tolist()
        start += size
    reasons = []
    for place, block in enumerate(blocks):
        if block.lead in (LEAD_PLAIN, LEAD_QUOTED):
            reasons.append("kept" if block.lead == LEAD_PLAIN else "quoted")
            continue
        given = {group: points[group][chosen] for group, chosen in classes_of(blocks, place).items()}
        given["sections around"] = sum(
            points["sections around"][2 * section + (section in block.sections)] for section in range(len(SECTIONS))
        )
        least = min((given[group], rank) for rank, group in enumerate(GROUPS))[1]
        reasons.append("kept" if sum(given.values()) >= threshold else list(GROUPS)[least])
    return reasons


def classes_of(blocks: list[Noted], place: int) -> dict[str, int]:
    """The class of a block in every group but "sections around", which has one for each section."""
    sizes = [len(block.tokens) for block in blocks]
    unlinked = [len(block.tokens) - block.links for block in blocks]
    words, links = sizes[place], blocks[place].links
    word_class = bisect_right(scorecard.WORD_EDGES, words)

    def coarse(neighbour: int) -> int:
        if not 0 <= neighbour < len(blocks):
            return 0
        share = blocks[neighbour].links * 16 // sizes[neighbour]
        sort = bisect_right(scorecard.COARSE_WORD_EDGES, sizes[neighbour])
        return sort * 3 + bisect_right(scorecard.COARSE_LINK_EDGES, share)

    def eighth(share: int, whole: int) -> int:
        return min(share * 8 // max(whole, 1), 7)

    def around(values: list[int], reach: int) -> int:
        return sum(values[max(place - reach, 0) : place + reach + 1])

    if links == 0:
        link_class = 0
    elif links == words:
        link_class = scorecard.LINK_CLASSES - 1
    else:
        link_class = 1 + bisect_right(scorecard.LINK_EDGES, links * 16 // words)
    classes = {
        "words and links": word_class * scorecard.LINK_CLASSES + link_class,
        "block before": coarse(place - 1),
        "block after": coarse(place + 1),
        "second block before": coarse(place - 2),
        "second block after": coarse(place + 2),
    }
    for name, reach in (("near", scorecard.NEAR), ("far", scorecard.FAR)):
        alone, every = around(unlinked, reach), around(sizes, reach)
        classes[f"words {name}"] = min((1 + alone).bit_length() - 1, scorecard.SUM_CLASSES - 1)
        classes[f"links {name}"] = eighth(every - alone, every)
    classes["place in page"] = eighth(sum(sizes[:place]), sum(sizes))
    classes["share of largest"] = bisect_right(scorecard.LARGEST_EDGES, unlinked[place] * 64 // max(*unlinked, 1))
    classes["tag before"] = blocks[place].lead
    classes["words in lists"] = (0 in blocks[place].sections) * scorecard.WORD_CLASSES + word_class
    classes["words in headings"] = (9 in blocks[place].sections) * scorecard.WORD_CLASSES + word_class
    return classes
