"""Programs of public packages that judge all pages of a file at once: MinHash of datatrove, an exact hash in Polars."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.peers.pages import texts_of

PageVerdict = tuple[str, str | None]
"""The ids of a page and of its original; None for a novel page."""


def datatrove(file: Path, extractor: str) -> Iterator[PageVerdict]:
    """The three steps of datatrove's MinHash with its defaults: 5-grams, 14 buckets of 8 hashes, clusters.

    Shingles are hashed by SHA-1, since its default hash does not run with the newest xxhash. Its fourth step drops all
    pages of a cluster but one of its choice; here the first page of the file is the one that stays.
    """
    from datatrove.data import Document
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.utils.hashing import HashConfig
    from datatrove.utils.logging import logger

    logger.remove()
    names, config = list[str](), MinhashConfig(hash_config=HashConfig(hash_fc="sha1"))

    def documents() -> Iterator[Document]:
        for name, text in texts_of(file, extractor):
            names.append(name)
            yield Document(text, name)

    with TemporaryDirectory() as scratch:
        signatures, buckets, clusters = (f"{scratch}/{step}" for step in ("signatures", "buckets", "clusters"))
        MinhashDedupSignature(signatures, config).run(documents(), 0, 1)
        for bucket in range(config.num_buckets):
            MinhashDedupBuckets(signatures, buckets, config=config).run(None, bucket, config.num_buckets)
        MinhashDedupCluster(buckets, clusters, config, save_cluster_id=True).run(None, 0, 1)
        written = Path(clusters) / f"{0:06d}.clusters"
        rows = np.fromfile(written, "<u4").reshape(-1, 2).tolist() if written.exists() else []
    first = dict[int, int]()
    originals = {place: first.setdefault(cluster, place) for place, cluster in sorted(rows)}
    for place, name in enumerate(names):
        original = originals.get(place, place)
        yield name, None if original == place else names[original]


def exact_hash(file: Path) -> Iterator[PageVerdict]:
    """A 64-bit hash of each body; the first page of each hash is novel."""
    import polars as pl

    columns = {"id": pl.String, "body": pl.String}
    hashed = pl.scan_ndjson(file, schema=columns).select("id", pl.col("body").hash().alias("hash"))
    rows = hashed.with_columns(first=pl.col("id").first().over("hash")).select("id", "first").collect()
    for name, first in rows.iter_rows():
        yield name, None if first == name else first
