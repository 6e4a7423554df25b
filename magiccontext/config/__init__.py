"""Every setting of behaviour comes from here, and from nowhere else (config.md).

`load()` gives the settings in force; `lookup` holds what they mean for one model.
"""

from magiccontext.config.files import Loaded, load
from magiccontext.config.problems import ConfigProblem, Outcome, ProblemClass
from magiccontext.config.schema import Config

__all__ = ["Config", "ConfigProblem", "Loaded", "Outcome", "ProblemClass", "load"]
