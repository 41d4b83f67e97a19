"""Sets the RocksDB options of every column family, with the measurements that they are based on."""

import resource
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    ChecksumType,
    DBCompactionStyle,
    DBCompressionType,
    DBRecoveryMode,
    Options,
)

from spotsieve.state.directory import INDEX_FOLDER
from spotsieve.state.store.backend import FAMILIES
from spotsieve.stream.base.settings.model import IndexSettings

MIB = 2**20
MEMTABLES = 8
LEAST_OPEN_FILES, MOST_OPEN_FILES = 32, 4096
FILE_LIMIT = 2**17
"""The soft limit of open files that a process takes if its hard limit allows it: room for the table files of many
states, and for the most connections of `spotsieve serve`."""
_BASE = Path(__file__).parent / "rocksdb"
"""Holds an options file with track_and_verify_wals_in_manifest, for which rocksdict has no setter."""


Filters = Literal["parts", "whole", "beside"]
"""Filters and indexes of table files: in the cache, in parts or whole, or whole beside the cache."""
PARTS_OPTION = {"block_based_table_factory": "{partition_filters=true;index_type=kTwoLevelIndexSearch}"}
"""Makes RocksDB write later table files of a family with filters in parts instead of whole ones."""
WHOLE_PER_CACHE = 4
"""A state whose table files take at most this many times the cache has whole filters and indexes.

They are a tenth of the table files or less, so they stay in the cache. A record looks up thousands of keys, most of
which are absent, and reads each filter once; in parts it searches for the part of each key. Among 2 million keys a key
takes 1.5 us instead of 2.7 (nine rounds in turn). In a larger state a whole filter could be read from the disk for one
key.
"""


class Tuning(NamedTuple):
    """Options that a measurement of a large state varies (`make large`). None changes stored bytes or verdicts.

    filter_bits: bits of a Bloom filter for each key
    filters: how filters and indexes of table files are held
    block_bytes: size of a data block before compression  last_compressed: whether the last level is compressed
    direct: reads, flushes and compactions bypass the page cache of the system
    universal: universal compaction; False: leveled  level_zero_files: number of files that starts a compaction
    rate_mb: limit of flushes and compactions in MiB per second, 0: none
    """

    filter_bits: int = 10
    filters: Filters = "parts"
    block_bytes: int = 4096
    last_compressed: bool = True
    direct: bool = False
    universal: bool = False
    level_zero_files: int = 8
    rate_mb: int = 0


TUNING = Tuning()


def database_options(tuning: Tuning = TUNING) -> Options:
    """Return the options of the database and of the default family, which holds only the meta values.

    The process raises its soft limit of open files first. Every opening of a database takes its options from here.

    Every check is on, some of them also by RocksDB's defaults: damage must stop the process, not change a verdict.
    The manifest tracks the write-ahead logs, so a state with a missing or cut log does not open. Without tracking, a
    lost file loses its records and keeps later ones: a state of position 1209 opened with 210 of 1,210 entries. The
    last file, which is still being written, may end early: the state is then a consistent earlier one.
    """
    options, _ = Options.load_latest(str(_BASE))
    options.set_paranoid_checks(True)
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(MIB)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_max_total_wal_size(256 * MIB)
    options.set_write_buffer_size(MIB)
    raise_file_limit()
    options.set_max_open_files(most_open_files())
    options.set_use_direct_reads(tuning.direct)
    options.set_use_direct_io_for_flush_and_compaction(tuning.direct)
    if tuning.rate_mb:
        options.set_ratelimiter(tuning.rate_mb * MIB, 100_000, 10)
    return options


def raise_file_limit() -> None:
    """Raise the soft limit of open files to FILE_LIMIT, or to the hard limit if that is lower. Never lower it.

    The usual soft limit of 1,024 is for programs that wait by select().
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILE_LIMIT if hard == resource.RLIM_INFINITY else min(hard, FILE_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # A system may allow less than its hard limit says.
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def file_limit() -> int:
    """Return how many files the process may open now; FILE_LIMIT if there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return FILE_LIMIT if soft == resource.RLIM_INFINITY else soft


def most_open_files() -> int:
    """Return how many table files RocksDB may hold open: half of the process's limit; connections need the rest.

    4,096 files hold 250 GB. Beyond the bound RocksDB closes the least recently used file. Without a bound it keeps all
    files open, and a large state exceeds the limit of the process.
    """
    return max(min(file_limit() // 2, MOST_OPEN_FILES), LEAST_OPEN_FILES)


def can_all_be_open(path: Path) -> bool:
    """Whether half of the process's limit is enough to hold all table files of the database at path open."""
    return _table_count(path) <= file_limit() // 2


def too_few_open_files(directory: Path) -> str | None:
    """Return a warning with the fix if the limit of open files is too low for the table files of a state, else None."""
    tables, most = _table_count(directory / INDEX_FOLDER), most_open_files()
    if most >= min(tables, MOST_OPEN_FILES):
        return None
    return (
        f"{directory} has {tables:,} table files, and only {most:,} can be open at a time, because this process may "
        f"open {file_limit():,} files: look-ups open table files again and again. Raise the hard limit to "
        f"{2 * MOST_OPEN_FILES:,} (ulimit -Hn, LimitNOFILE of systemd, --ulimit nofile of Docker)"
    )


def _table_count(path: Path) -> int:
    return sum(1 for _ in path.glob("*.sst"))


def column_families(settings: IndexSettings | None, tuning: Tuning = TUNING) -> dict[str, Options]:
    """Return the options of every family but the default one. settings: None if only the names matter

    Every opening must pass all families. Otherwise RocksDB opens a family with default options, and the tuning is
    silently lost.
    """
    settings = settings or IndexSettings()
    cache = _cache(settings, tuning)
    sources = Options(raw_mode=True)
    options = (
        _buckets(settings, cache, tuning),
        _entries(cache, tuning),
        sources,
        _hosts(cache, tuning),
        _pending_verdicts(),
        Options(raw_mode=True),
    )
    return dict(zip(FAMILIES, options, strict=True))


def _cache(settings: IndexSettings, tuning: Tuning) -> Cache:
    """Return the block cache of all families: a HyperClockCache, whose shards have at least 32 MiB.

    The shards of an LRU cache of 256 MiB have 4 MiB each. The whole filter of a table file of 64 MiB does not fit into
    one: every record read it again. At 900,000 pages judging took 307 us of CPU a page with an LRU cache, and 78 with
    this one (medians of three windows of 10,240 pages, one state, in turn).
    """
    return Cache.new_hyper_clock_cache(settings.cache_mb * MIB, tuning.block_bytes)


def _buckets(settings: IndexSettings, cache: Cache, tuning: Tuning) -> Options:
    """Return the options for random 8-byte keys with small values, which are mostly absent when read.

    The write buffer is cut into memtables that are flushed together. A skip list of 4 MiB stays in the processor's
    cache: an insertion takes 0.9 us a key, against 1.7 us for one of 32 MiB. The table files stay as large (7 M keys:
    1.6 us a key in all, flushes and compactions included, against 2.4). Small memtables without the merging flush
    double the cost: four times as many compactions. A compaction begins at twice RocksDB's number of level-0 files:
    that halves how often the whole last level is rewritten, and costs an absent key one more filter.

    The last level, which holds nearly everything, is compressed: 248 bytes per indexed page against 361 (2 digests, 4
    tables and 8 MinHash values, a million pages), for 4 us of CPU a page with 10 keys and 12 us with 14. Recent data is
    not compressed, because it is soon written again. zstd would take 190 bytes and several times as long to read a
    block.

    Measured and left out: write-ahead log off (no difference), universal compaction (half as much again), hash-list
    memtables (1 us less a key when inserting, 2 us more when flushing), blocks of 1 KiB (more index, slower).
    """
    options = Options(raw_mode=True)
    table = _bounded_tables(cache, tuning)
    table.set_bloom_filter(tuning.filter_bits, False)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.none())
    if tuning.last_compressed:
        options.set_bottommost_compression_type(DBCompressionType.lz4())
    if tuning.universal:
        options.set_compaction_style(DBCompactionStyle.universal())
    options.set_write_buffer_size(settings.write_buffer_mb * MIB // MEMTABLES)
    options.set_min_write_buffer_number_to_merge(MEMTABLES)
    options.set_max_write_buffer_number(2 * MEMTABLES)
    options.set_level_zero_file_num_compaction_trigger(tuning.level_zero_files)
    options.set_memtable_prefix_bloom_ratio(0.1)
    options.set_memtable_whole_key_filtering(True)
    return options


def _entries(cache: Cache, tuning: Tuning) -> Options:
    """Return the options for ascending keys that are written once and read for candidates and originals.

    zstd in the last level takes 371 bytes per indexed page without its URL, LZ4 405, for the same CPU (a million pages,
    in turn, twice). A trained dictionary would save 5 more, for 4 us a page.
    """
    options = _compressed(cache, tuning)
    if tuning.last_compressed:
        options.set_bottommost_compression_type(DBCompressionType.zstd())
    return options


def _hosts(cache: Cache, tuning: Tuning) -> Options:
    """Return the options for random 8-byte keys. Most values have 11 bytes, the values of large hosts some kilobytes.

    A value is read and rewritten with every record that has pages of its host. The first read finds nothing.
    """
    options = _compressed(cache, tuning)
    table = _bounded_tables(cache, tuning)
    table.set_bloom_filter(tuning.filter_bits, False)
    options.set_block_based_table_factory(table)
    return options


def _compressed(cache: Cache, tuning: Tuning) -> Options:
    """Return the options that entries and hosts share.

    Memtables of 4 MiB: with 8 a million pages take the same CPU (155 and 160 us a page, against 152 and 159, run beside
    each other, twice), and RSS ends 10 MiB higher.
    """
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(_bounded_tables(cache, tuning))
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(4 * MIB)
    return options


def _pending_verdicts() -> Options:
    """Return the options for keys that are soon removed, range by range, and read only after a crash."""
    options = Options(raw_mode=True)
    options.set_write_buffer_size(4 * MIB)
    return options


def _bounded_tables(cache: Cache, tuning: Tuning) -> BlockBasedOptions:
    """Return the options of table files whose filters and indexes live in the cache: whole, or in parts of 16 KiB.

    By default RocksDB holds them beside the cache for every open file: 17 bytes a page, 1.8 GB for 100 million pages.
    Here the cache bounds them with the rest. Of parts only their list, a thousandth of their size, is always in memory.
    A state whose filters do not fit reads a part from the disk for an absent key (docs/measured/index-memory.md).
    """
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_checksum_type(ChecksumType.xxh3())
    table.set_format_version(5)
    table.set_block_size(tuning.block_bytes)
    if tuning.filters == "beside":
        return table
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_top_level_index_and_filter(True)
    table.set_metadata_block_size(16384)
    if tuning.filters == "parts":
        table.set_index_type(BlockBasedIndexType.two_level_index_search())
        table.set_partition_filters(True)
    return table
