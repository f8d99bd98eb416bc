"""Every test in this folder ends with rows that are what their logs fold to."""

from tests.folding import folds_back

__all__ = ["folds_back"]
