"""Provides numba intrinsics over raw addresses: loads, stores, copies, and vector and 128-bit instructions.

Each intrinsic is a few lines of LLVM IR, which LLVM lowers to the instructions of the CPU (AVX-512, AVX2, SSE2, NEON)
with the same result. Loads and stores are unaligned and little-endian. Bit k of a 64-bit mask stands for the byte at
`address + k`. Vector loads may read up to 65 bytes from `address`. Callers make sure that these bytes exist
(`PADDING`), and ignore the bytes after the page.
"""

from llvmlite import ir
from numba import types
from numba.core.cgutils import raw_memcpy
from numba.extending import intrinsic

from spotsieve.stream.base.page import KERNEL_PADDING_BYTES

# Loads, stores and copies

_I8 = ir.IntType(8)
_I64 = ir.IntType(64)


@intrinsic
def byte_at(typing_context, address):
    """The byte at `address`."""

    def generate(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], _I8.as_pointer()))

    return types.uint8(types.int64), generate


@intrinsic
def put_byte(typing_context, address, value):
    """Write the low 8 bits of `value` at `address`."""

    def generate(context, builder, signature, arguments):
        builder.store(builder.trunc(arguments[1], _I8), builder.inttoptr(arguments[0], _I8.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def load_word(typing_context, address):
    """The little-endian uint64 at `address`."""

    def generate(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], _I64.as_pointer()), align=1)

    return types.uint64(types.int64), generate


@intrinsic
def put_word(typing_context, address, value):
    """Write a uint64 at `address`."""

    def generate(context, builder, signature, arguments):
        builder.store(arguments[1], builder.inttoptr(arguments[0], _I64.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


@intrinsic
def load_int(typing_context, address):
    """The int64 at `address`."""

    def generate(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], _I64.as_pointer()), align=1)

    return types.int64(types.int64), generate


@intrinsic
def put_int(typing_context, address, value):
    """Write an int64 at `address`."""

    def generate(context, builder, signature, arguments):
        builder.store(arguments[1], builder.inttoptr(arguments[0], _I64.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def load_short(typing_context, address):
    """The uint16 at `address`."""

    def generate(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(16).as_pointer()), align=1)

    return types.uint16(types.int64), generate


@intrinsic
def load_int32(typing_context, address):
    """The int32 at `address`, widened to int64."""

    def generate(context, builder, signature, arguments):
        narrow = builder.load(builder.inttoptr(arguments[0], ir.IntType(32).as_pointer()), align=1)
        return builder.sext(narrow, _I64)

    return types.int64(types.int64), generate


@intrinsic
def put_int32(typing_context, address, value):
    """Write the low 32 bits of `value` at `address`."""

    def generate(context, builder, signature, arguments):
        narrow = builder.trunc(arguments[1], ir.IntType(32))
        builder.store(narrow, builder.inttoptr(arguments[0], ir.IntType(32).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def copy_bytes(typing_context, target, source, size):
    """Copy `size` bytes between two ranges that do not overlap.

    A loop over arrays takes 1.4 ns per byte, because the compiler cannot exclude an overlap.
    """

    def generate(context, builder, signature, arguments):
        target, source, size = arguments
        to, from_ = (builder.inttoptr(address, _I8.as_pointer()) for address in (target, source))
        raw_memcpy(builder, to, from_, size, 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


# Vectors and 128-bit products

PADDING = KERNEL_PADDING_BYTES
"""Bytes that must be readable after the last byte of a page."""

_I128 = ir.IntType(128)
_LANES = 64
_WINDOW = ir.VectorType(_I8, _LANES)
_PAIR = ir.VectorType(_I8, 16)
_LOWER_BIT = 0x20


def _splat(value: int, lanes: int = _LANES) -> ir.Constant:
    return ir.Constant(ir.VectorType(_I8, lanes), [value] * lanes)


def _window(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.load(builder.inttoptr(address, _WINDOW.as_pointer()), align=1)


def _equal(builder: ir.IRBuilder, vector: ir.Value, character: str) -> ir.Value:
    return builder.icmp_unsigned("==", vector, _splat(ord(character)))


def _letters(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    places = builder.sub(builder.or_(vector, _splat(_LOWER_BIT)), _splat(ord("a")))
    return builder.icmp_unsigned("<", places, _splat(26))


def _digits(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    return builder.icmp_unsigned("<", builder.sub(vector, _splat(ord("0"))), _splat(10))


def _at_least(builder: ir.IRBuilder, vector: ir.Value, byte: int) -> ir.Value:
    return builder.icmp_unsigned(">=", vector, _splat(byte))


def _mask(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    return builder.bitcast(lanes, _I64)


@intrinsic
def text_masks(typing_context, address):
    """Masks (words, stops, digits) of 64 bytes.

    words: ASCII letters and digits  stops: '<', '&', NUL, bytes from 0x80 on  digits: ASCII digits
    """

    def generate(context, builder, signature, arguments):
        window = _window(builder, arguments[0])
        stops = builder.or_(_equal(builder, window, "<"), _equal(builder, window, "&"))
        # Signed bytes from 0x80 on are negative, so "below 1" means NUL or non-ASCII.
        stops = builder.or_(stops, builder.icmp_signed("<", window, _splat(1)))
        digits = _digits(builder, window)
        words = builder.or_(_letters(builder, window), digits)
        masks = [_mask(builder, lanes) for lanes in (words, stops, digits)]
        return context.make_tuple(builder, signature.return_type, masks)

    return types.UniTuple(types.uint64, 3)(types.int64), generate


@intrinsic
def tag_masks(typing_context, address):
    """Masks (words, '>', '"', '=', "'") of 64 bytes. words: ASCII letters and digits"""

    def generate(context, builder, signature, arguments):
        window = _window(builder, arguments[0])
        masks = [_mask(builder, builder.or_(_letters(builder, window), _digits(builder, window)))]
        masks += [_mask(builder, _equal(builder, window, character)) for character in ">\"='"]
        return context.make_tuple(builder, signature.return_type, masks)

    return types.UniTuple(types.uint64, 5)(types.int64), generate


@intrinsic
def equal_mask(typing_context, address, character):
    """Mask of the bytes among 64 that equal `character`."""

    def generate(context, builder, signature, arguments):
        first_lane = ir.Constant(ir.IntType(32), 0)
        vector = builder.insert_element(ir.Constant(_WINDOW, ir.Undefined), arguments[1], first_lane)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), None)
        splat = builder.shuffle_vector(vector, ir.Constant(_WINDOW, ir.Undefined), zeros)
        return _mask(builder, builder.icmp_unsigned("==", _window(builder, arguments[0]), splat))

    return types.uint64(types.int64, types.uint8), generate


@intrinsic
def string_masks(typing_context, address):
    """Masks (stops, high) of 64 bytes of a JSON text. stops: quotation mark, backslash, controls  high: from 0x80 on"""

    def generate(context, builder, signature, arguments):
        window = _window(builder, arguments[0])
        stops = builder.or_(_equal(builder, window, '"'), _equal(builder, window, "\\"))
        stops = builder.or_(stops, builder.icmp_unsigned("<", window, _splat(0x20)))
        high = builder.icmp_signed("<", window, _splat(0))
        masks = [_mask(builder, lanes) for lanes in (stops, high)]
        return context.make_tuple(builder, signature.return_type, masks)

    return types.UniTuple(types.uint64, 2)(types.int64), generate


@intrinsic
def utf8_errors(typing_context, address):
    """Mask of the bytes among 64 that are an error of UTF-8, by RFC 3629 (reads 3 bytes before the address).

    A sequence that ends too early is an error of the byte after it.
    """

    def generate(context, builder, signature, arguments):
        window, *before = (
            _window(builder, builder.sub(arguments[0], ir.Constant(_I64, distance))) for distance in range(4)
        )

        required = _at_least(builder, before[0], 0xC2)
        required = builder.or_(required, _at_least(builder, before[1], 0xE0))
        required = builder.or_(required, _at_least(builder, before[2], 0xF0))
        continuation = builder.icmp_signed("<", window, _splat(0xC0))
        errors = builder.xor(continuation, required)
        errors = builder.or_(errors, builder.icmp_unsigned("<", builder.sub(window, _splat(0xC0)), _splat(2)))
        errors = builder.or_(errors, _at_least(builder, window, 0xF5))
        # A longer form than necessary, a surrogate, a longer form, a number above U+10FFFF.
        for lead, first, end in ((0xE0, 0x80, 0xA0), (0xED, 0xA0, 0xC0), (0xF0, 0x80, 0x90), (0xF4, 0x90, 0xC0)):
            led = builder.icmp_unsigned("==", before[0], _splat(lead))
            place = builder.sub(window, _splat(first))
            wrong = builder.icmp_unsigned("<", place, _splat(end - first))
            errors = builder.or_(errors, builder.and_(led, wrong))
        return _mask(builder, errors)

    return types.uint64(types.int64), generate


@intrinsic
def raw_end_mask(typing_context, address):
    """Mask of the '<' among 64 bytes that precede '/' or '!' (reads 65 bytes)."""

    def generate(context, builder, signature, arguments):
        window = _window(builder, arguments[0])
        following = _window(builder, builder.add(arguments[0], ir.Constant(_I64, 1)))
        second = builder.or_(_equal(builder, following, "/"), _equal(builder, following, "!"))
        return _mask(builder, builder.and_(_equal(builder, window, "<"), second))

    return types.uint64(types.int64), generate


@intrinsic
def dashes_mask(typing_context, address):
    """Mask of the '-' among 64 bytes that precede another '-' (reads 65 bytes)."""

    def generate(context, builder, signature, arguments):
        window = _window(builder, arguments[0])
        following = _window(builder, builder.add(arguments[0], ir.Constant(_I64, 1)))
        return _mask(builder, builder.and_(_equal(builder, window, "-"), _equal(builder, following, "-")))

    return types.uint64(types.int64), generate


def _sixteen(builder: ir.IRBuilder, address: ir.Value, length: ir.Value, or_bits: int) -> list[ir.Value]:
    vector = builder.load(builder.inttoptr(address, _PAIR.as_pointer()), align=1)
    if or_bits:
        vector = builder.or_(vector, _splat(or_bits, 16))
    short = builder.trunc(length, _I8)
    lanes = builder.insert_element(ir.Constant(_PAIR, ir.Undefined), short, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), 16), None)
    lengths = builder.shuffle_vector(lanes, ir.Constant(_PAIR, ir.Undefined), zeros)
    positions = ir.Constant(_PAIR, list(range(16)))
    selected = builder.select(builder.icmp_unsigned("<", positions, lengths), vector, ir.Constant(_PAIR, None))
    halves = builder.bitcast(selected, ir.VectorType(_I64, 2))
    return [builder.extract_element(halves, ir.Constant(ir.IntType(32), index)) for index in (0, 1)]


@intrinsic
def lowered16(typing_context, address, length):
    """The first min(length, 16) bytes as two little-endian words, zero padded; ASCII letters in lower case.

    Digits do not change, because they have the lower-case bit already. Lengths must be below 256.
    """

    def generate(context, builder, signature, arguments):
        halves = _sixteen(builder, arguments[0], arguments[1], _LOWER_BIT)
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(types.uint64, 2)(types.int64, types.int64), generate


@intrinsic
def loaded16(typing_context, address, length):
    """The first min(length, 16) bytes as two little-endian words, zero padded. Lengths must be below 256."""

    def generate(context, builder, signature, arguments):
        halves = _sixteen(builder, arguments[0], arguments[1], 0)
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(types.uint64, 2)(types.int64, types.int64), generate


@intrinsic
def folded_product(typing_context, left, right):
    """High half of the 128-bit product, xor its low half."""

    def generate(context, builder, signature, arguments):
        wide = [builder.zext(argument, _I128) for argument in arguments]
        product = builder.mul(wide[0], wide[1])
        high = builder.trunc(builder.lshr(product, ir.Constant(_I128, 64)), _I64)
        return builder.xor(high, builder.trunc(product, _I64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def trailing_zeros(typing_context, mask):
    """Number of zero bits below the lowest set bit; 64 for zero."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def leading_zeros(typing_context, mask):
    """Number of zero bits above the highest set bit; 64 for zero."""

    def generate(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def add_bit_counts(typing_context, features, count, totals):
    """Add the bits of `count` <= 255 words at address `features` to the uint32[64] counters at address `totals`."""

    def generate(context, builder, signature, arguments):
        features, count, totals = arguments
        entry = builder.block
        loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
        zero = ir.Constant(_I64, 0)
        builder.cbranch(builder.icmp_signed(">", count, zero), loop, done)
        builder.position_at_end(loop)
        index, sums = builder.phi(_I64), builder.phi(_WINDOW)
        address = builder.add(features, builder.shl(index, ir.Constant(_I64, 3)))
        word = builder.load(builder.inttoptr(address, _I64.as_pointer()), align=1)
        bits = builder.zext(builder.bitcast(word, ir.VectorType(ir.IntType(1), _LANES)), _WINDOW)
        more = builder.add(sums, bits)
        following = builder.add(index, ir.Constant(_I64, 1))
        index.add_incoming(zero, entry)
        index.add_incoming(following, loop)
        sums.add_incoming(ir.Constant(_WINDOW, None), entry)
        sums.add_incoming(more, loop)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, done)
        builder.position_at_end(done)
        final = builder.phi(_WINDOW)
        final.add_incoming(ir.Constant(_WINDOW, None), entry)
        final.add_incoming(more, loop)
        wide = ir.VectorType(ir.IntType(32), _LANES)
        pointer = builder.inttoptr(totals, wide.as_pointer())
        builder.store(builder.add(builder.load(pointer, align=4), builder.zext(final, wide)), pointer, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def opaque(typing_context, value):
    """The value, opaque to LLVM, which otherwise turns a value known to be 0 or 1 into a branch."""

    def generate(context, builder, signature, arguments):
        return builder.asm(ir.FunctionType(_I64, [_I64]), "", "=r,0", [arguments[0]], side_effect=False)

    return types.int64(types.int64), generate
