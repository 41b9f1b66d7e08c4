"""Keep what is fixed fixed: which breaks are new, which are accepted and why, and does the run pass.

Nothing here imports torch or runs a program: findings go in, a verdict comes out.
"""

from onegraph.gate.baseline import Baseline, BaselineError, torch_minor
from onegraph.gate.judge import judge
from onegraph.gate.keys import fingerprint, keyed_path, keys_of
from onegraph.gate.settings import Settings, SettingsError, load_settings

__all__ = [
    "Baseline",
    "BaselineError",
    "Settings",
    "SettingsError",
    "fingerprint",
    "judge",
    "keyed_path",
    "keys_of",
    "load_settings",
    "torch_minor",
]
