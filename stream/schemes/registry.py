"""Owns which scheme a name stands for."""

from stream.config import SchemeSettings, SpotsSection
from stream.schemes import Scheme
from stream.schemes.chain import ChainScheme


def scheme_of(scheme: SchemeSettings, spots: SpotsSection) -> Scheme:
    """The scheme that the settings name, ready to sign. Raises SettingError where its parameters do not go together."""
    return ChainScheme(scheme, spots)
