"""The scheme `chain`: spots (Theobald et al. 2008), simhash 64 and permuted tables (Manku et al. 2007)."""

from collections.abc import Sequence

import numpy as np

from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.features.extract import extract_spots
from spotsieve.stream.features.spots import DEFAULT_ANTECEDENTS, DEFAULT_STOP_WORDS, SpotModel, SpotSettings
from spotsieve.stream.fingerprints.tables import design_tables
from spotsieve.stream.page import Page, lay_out
from spotsieve.stream.schemes.simhash.fingerprinted import FingerprintSearch, fold_signatures
from spotsieve.stream.settings.schemes import ChainSettings
from spotsieve.stream.signature import Signatures


class ChainScheme(FingerprintSearch):
    """Spots -> simhash -> permuted tables -> Hamming distance <= k."""

    name = "chain"

    def __init__(self, settings: ChainSettings) -> None:
        """Raises SettingError where no table design has the wished number of tables for k."""
        super().__init__(design_tables(settings.max_distance_bits, settings.tables))
        self.min_features = settings.min_features
        self.model = SpotModel(
            SpotSettings(
                settings.antecedents or DEFAULT_ANTECEDENTS,
                settings.stop_words or DEFAULT_STOP_WORDS,
                settings.distance,
                settings.chain_length,
            )
        )

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body; extract the spots of those that can be judged, and fold them where there are enough."""
        batch = lay_out(pages)
        found = extract_spots(batch.buffer, batch.bounds, batch.markup.view(np.bool_), self.model)
        return fold_signatures(pages, found.spots, found.spot_bounds, sizes_of(found.spot_bounds), self.min_features)
