"""Digests of page bodies by XXH3-128, and of shingles by SHA-1, both compiled.

Bodies: XXH3-128 (Yann Collet's specification, long inputs). The kernel that has just read a page digests it while the
page is in the CPU's cache. Hashing all pages of a batch afterwards takes four times as long, because it waits for
memory.

Shingles: Roul et al. (sec. 4, step 4) use SHA-1 (FIPS 180-4), of which 64 bits are kept.

    message = the hashes of the shingle's tokens (stream/sign/text/hashing.py), 8 bytes each, big endian
    hash    = the first 8 bytes of its SHA-1, big endian

hashlib takes 0.67 us per shingle with the call, this kernel 0.15 us.
"""

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of
from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.sign.text.machine import folded_product, load_word
from spotsieve.stream.sign.text.tokens import PageTokens

# ruff: noqa: ARG001
# numba passes the typing context and all arguments to an intrinsic by position, used or not.

SHORT_BYTES = 240
"""Up to this size the specification uses other constructions, which are left to the caller."""

_SECRET = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
        "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8"
        "fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb17"
        "0ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
    ),
    np.uint8,
)
_PRIME32_1, _PRIME32_2, _PRIME32_3 = np.uint64(0x9E3779B1), np.uint64(0x85EBCA77), np.uint64(0xC2B2AE3D)
_PRIME64_1, _PRIME64_2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME64_3, _PRIME64_4 = np.uint64(0x165667B19E3779F9), np.uint64(0x85EBCA77C2B2AE63)
_PRIME64_5, _AVALANCHE = np.uint64(0x27D4EB2F165667C5), np.uint64(0x165667919E3779F9)
_STRIPE, _BLOCK = 64, 1024
_SCRAMBLING, _LAST, _LOW, _HIGH = 128, 121, 11, 117
"""Byte offsets into the secret."""

_I64 = ir.IntType(64)
_LANES = ir.VectorType(_I64, 8)


def new_lanes() -> NDArray[np.uint64]:
    """Buffer of digest_body: eight accumulators, then the secret. uint64[32]"""
    lanes = np.zeros(32, np.uint64)
    lanes[8:] = _SECRET.view(np.uint64)
    return lanes


@part
def digest_body(address, size, lanes):  # int64, int64, uint64[32] of new_lanes -> (uint64, uint64)
    """XXH3-128 of the `size` bytes at `address`, as (low word, high word). `size` exceeds SHORT_BYTES."""
    sums = np.int64(lanes.ctypes.data)
    secret = sums + 64
    lanes[0], lanes[1], lanes[2], lanes[3] = _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3
    lanes[4], lanes[5], lanes[6], lanes[7] = _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1
    end = address + size
    blocks = (size - 1) // _BLOCK
    add_blocks(sums, address, blocks, secret)
    address += blocks * _BLOCK
    add_stripes(sums, address, (end - address - 1) // _STRIPE, secret)
    add_stripes(sums, end - _STRIPE, np.int64(1), secret + _LAST)
    length = np.uint64(size)
    return (
        merged(lanes, secret + _LOW, length * _PRIME64_1),
        merged(lanes, secret + _HIGH, ~(length * _PRIME64_2)),
    )


@part
def merged(lanes, secret, state):  # uint64[>= 8], int64, uint64 -> uint64
    """One word of the digest: the accumulators merged with the secret at this address."""
    for pair in range(4):
        key = secret + (pair << 4)
        left, right = lanes[2 * pair] ^ load_word(key), lanes[2 * pair + 1] ^ load_word(key + 8)
        state += folded_product(left, right)
    state = (state ^ state >> np.uint64(37)) * _AVALANCHE
    return state ^ state >> np.uint64(32)


def _lanes_at(builder: ir.IRBuilder, address: ir.Value, offset: int = 0) -> ir.Value:
    place = builder.add(address, ir.Constant(_I64, offset))
    return builder.load(builder.inttoptr(place, _LANES.as_pointer()), align=1)


def _stripe_added(builder: ir.IRBuilder, sums: ir.Value, data: ir.Value, keyed: ir.Value) -> ir.Value:
    """The sums after one stripe of 64 bytes: plus the products of the keyed halves and the neighbours' data."""
    low = builder.and_(keyed, ir.Constant(_LANES, [0xFFFFFFFF] * 8))
    product = builder.mul(low, builder.lshr(keyed, ir.Constant(_LANES, [32] * 8)))
    swapped = ir.Constant(ir.VectorType(ir.IntType(32), 8), [1, 0, 3, 2, 5, 4, 7, 6])
    crossed = builder.shuffle_vector(data, ir.Constant(_LANES, ir.Undefined), swapped)
    return builder.add(sums, builder.add(product, crossed))


def _repeated(
    builder: ir.IRBuilder, count: ir.Value, sums: ir.Value, generate_step: Callable[[ir.Value, ir.Value], ir.Value]
) -> None:
    """Generate a loop that applies sums = generate_step(index, sums) `count` times and keeps the sums in registers."""
    pointer = builder.inttoptr(sums, _LANES.as_pointer())
    entry, before = builder.block, builder.load(pointer, align=8)
    loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
    zero = ir.Constant(_I64, 0)
    builder.cbranch(builder.icmp_signed(">", count, zero), loop, done)
    builder.position_at_end(loop)
    index, total = builder.phi(_I64), builder.phi(_LANES)
    more = generate_step(index, total)
    following = builder.add(index, ir.Constant(_I64, 1))
    index.add_incoming(zero, entry)
    index.add_incoming(following, loop)
    total.add_incoming(before, entry)
    total.add_incoming(more, loop)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, done)
    builder.position_at_end(done)
    final = builder.phi(_LANES)
    final.add_incoming(before, entry)
    final.add_incoming(more, loop)
    builder.store(final, pointer, align=8)


@intrinsic
def add_stripes(typing_context, sums, address, stripes, secret):
    """Accumulate the stripes at `address` into the uint64[8] at `sums`; the key of stripe i is at secret + 8 i."""

    def generate(context, builder, signature, arguments):
        sums, address, stripes, secret = arguments

        def step(index, total):
            data = _lanes_at(builder, builder.add(address, builder.shl(index, ir.Constant(_I64, 6))))
            key = _lanes_at(builder, builder.add(secret, builder.shl(index, ir.Constant(_I64, 3))))
            return _stripe_added(builder, total, data, builder.xor(data, key))

        _repeated(builder, stripes, sums, step)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def add_blocks(typing_context, sums, address, blocks, secret):
    """Accumulate blocks of 1,024 bytes, and scramble the sums after each block as XXH3 does."""

    def generate(context, builder, signature, arguments):
        sums, address, blocks, secret = arguments

        def step(index, total):
            block = builder.add(address, builder.shl(index, ir.Constant(_I64, 10)))
            for stripe in range(_BLOCK // _STRIPE):
                data = _lanes_at(builder, block, _STRIPE * stripe)
                total = _stripe_added(builder, total, data, builder.xor(data, _lanes_at(builder, secret, 8 * stripe)))
            mixed = builder.xor(total, builder.lshr(total, ir.Constant(_LANES, [47] * 8)))
            mixed = builder.xor(mixed, _lanes_at(builder, secret, _SCRAMBLING))
            return builder.mul(mixed, ir.Constant(_LANES, [int(_PRIME32_1)] * 8))

        _repeated(builder, blocks, sums, step)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), generate


_LOW_WORD = 0xFFFFFFFF
_SHA1_START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)


def sha1_shingles(tokens: PageTokens, width: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hashes of all runs of `width` tokens of n pages, in page order, with repeats.

    -> hashes: uint64[m], page i has hashes[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    A page with fewer than `width` tokens has no shingle. Raises ValueError for a width below 1.
    """
    if width < 1:
        raise ValueError(f"shingles must have at least 1 token, got {width}")
    bounds = bounds_of(np.maximum(tokens.counts - width + 1, 0))
    hashes = np.empty(bounds[-1], np.uint64)
    _hash_shingles(tokens.hashes.copy(), tokens.bounds.copy(), width, hashes)
    return hashes, bounds


@kernel
def _hash_shingles(tokens, bounds, width, hashes):
    # tokens: uint64[t]  bounds: int64[n + 1]  width: int64  ->  hashes: uint64[m]
    blocks = (2 * width + 3 + 15) // 16
    message = np.zeros(16 * blocks, dtype=np.uint32)
    message[2 * width] = np.uint32(0x80000000)
    message[16 * blocks - 1] = np.uint32(64 * width)
    schedule = np.empty(80, dtype=np.uint32)
    written = np.int64(0)
    for page in range(len(bounds) - 1):
        for first in range(bounds[page], bounds[page + 1] - width + 1):
            for place in range(width):
                token = tokens[first + place]
                message[2 * place] = np.uint32(token >> np.uint64(32))
                message[2 * place + 1] = np.uint32(token & np.uint64(_LOW_WORD))
            hashes[written] = _sha1_64(message, blocks, schedule)
            written += 1


@kernel
def _sha1_64(message, blocks, schedule):
    # message: uint32[16 * blocks], padded  schedule: uint32[80], written over  ->  uint64
    h0, h1, h2 = np.uint32(_SHA1_START[0]), np.uint32(_SHA1_START[1]), np.uint32(_SHA1_START[2])
    h3, h4 = np.uint32(_SHA1_START[3]), np.uint32(_SHA1_START[4])
    for block in range(blocks):
        for t in range(16):
            schedule[t] = message[16 * block + t]
        for t in range(16, 80):
            schedule[t] = _turned(schedule[t - 3] ^ schedule[t - 8] ^ schedule[t - 14] ^ schedule[t - 16], 1)
        a, b, c, d, e = h0, h1, h2, h3, h4
        for t in range(20):
            a, b, c, d, e = _round(a, b, c, d, e, (b & c) | (~b & d), 0x5A827999, schedule[t])
        for t in range(20, 40):
            a, b, c, d, e = _round(a, b, c, d, e, b ^ c ^ d, 0x6ED9EBA1, schedule[t])
        for t in range(40, 60):
            a, b, c, d, e = _round(a, b, c, d, e, (b & c) | (b & d) | (c & d), 0x8F1BBCDC, schedule[t])
        for t in range(60, 80):
            a, b, c, d, e = _round(a, b, c, d, e, b ^ c ^ d, 0xCA62C1D6, schedule[t])
        h0, h1, h2 = np.uint32(h0 + a), np.uint32(h1 + b), np.uint32(h2 + c)
        h3, h4 = np.uint32(h3 + d), np.uint32(h4 + e)
    return (np.uint64(h0) << np.uint64(32)) | np.uint64(h1)


@part
def _turned(word, bits):  # uint32, int -> uint32
    return np.uint32((word << np.uint32(bits)) | (np.uint32(word) >> np.uint32(32 - bits)))


@part
def _round(a, b, c, d, e, mixed, constant, word):  # uint32, ... -> 5 x uint32
    turned = np.uint32(_turned(a, 5) + np.uint32(mixed) + e + np.uint32(constant) + word)
    return turned, a, _turned(b, 30), c, d
