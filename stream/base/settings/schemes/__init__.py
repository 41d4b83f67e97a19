"""The settings of the schemes: one frozen model for each published system. [scheme] holds one of them.

Each model has a `threshold` (section.Threshold): the setting that makes the scheme stricter or looser, with the values
that `score --sweep` tries for the curves of precision and recall.
"""

from typing import get_args

from spotsieve.stream.base.settings.schemes.minwise import (
    AdaptiveShinglesSettings,
    MinhashSettings,
    OnebitSettings,
    SpotsieveSettings,
)
from spotsieve.stream.base.settings.schemes.simhash import (
    ChainSettings,
    ConceptSettings,
    MankuSettings,
    SubhashSettings,
)
from spotsieve.stream.base.settings.schemes.spots import (
    ImatchSettings,
    ImatchSSettings,
    SpotsigsLshSettings,
    SpotsigsSettings,
)

__all__ = [
    "DEFAULT_SCHEME",
    "SCHEME_SETTINGS",
    "AdaptiveShinglesSettings",
    "ChainSettings",
    "ConceptSettings",
    "ImatchSSettings",
    "ImatchSettings",
    "MankuSettings",
    "MinhashSettings",
    "ModelledSettings",
    "OnebitSettings",
    "SchemeSettings",
    "SpotsieveSettings",
    "SpotsigsLshSettings",
    "SpotsigsSettings",
    "SubhashSettings",
]

ModelledSettings = ImatchSettings | ImatchSSettings | SpotsigsSettings | SpotsigsLshSettings
"""The schemes that need a model of term statistics."""
SchemeSettings = (
    SpotsieveSettings
    | ChainSettings
    | MankuSettings
    | SubhashSettings
    | MinhashSettings
    | OnebitSettings
    | AdaptiveShinglesSettings
    | ImatchSettings
    | ImatchSSettings
    | SpotsigsSettings
    | SpotsigsLshSettings
    | ConceptSettings
)
"""The models that [scheme] can hold, discriminated by `name`. Add a new scheme here and in
stream/sign/schemes/registry.py."""
SCHEME_SETTINGS: dict[str, type[SchemeSettings]] = {
    model.model_fields["name"].default: model for model in get_args(SchemeSettings)
}
"""Name -> settings, in the order of lists of schemes."""
DEFAULT_SCHEME = "spotsieve"
