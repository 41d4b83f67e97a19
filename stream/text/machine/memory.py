"""Loads, stores and copies at raw addresses, as numba intrinsics: unaligned and little-endian."""

from llvmlite import ir
from numba import types
from numba.core.cgutils import raw_memcpy
from numba.extending import intrinsic

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
    """The int32 at `address`, widened."""

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
    """Copy `size` bytes from one address to another; the two places do not overlap.

    A loop over arrays of bytes takes 1.4 ns for each: the compiler cannot know that they do not overlap.
    """

    def generate(context, builder, signature, arguments):
        target, source, size = arguments
        to, from_ = (builder.inttoptr(address, _I8.as_pointer()) for address in (target, source))
        raw_memcpy(builder, to, from_, size, 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate
