"""The registry of model families: a new architecture is one more entry here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estream_lab.errors import EStreamError
from estream_lab.models.config import Config
from estream_lab.models.family import Family
from estream_lab.models.olmoe import OLMOE
from estream_lab.models.spec import ModelSpec

FAMILIES: Mapping[str, Family] = {family.name: family for family in (OLMOE,)}


def family_of(config: Mapping[str, Any], where: str = "config.json") -> Family:
    """The family whose name the configuration gives as `model_type`.

    Raises:
        EStreamError: the architecture is not supported, or the configuration doesn't name one.
    """
    name = config.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise EStreamError(f"{where} describes a model of type {name!r}; give a checkpoint of one of: {known}")
    return FAMILIES[name]


def spec_from_config(config: Mapping[str, Any], where: str = "config.json") -> ModelSpec:
    """The spec that a checkpoint's configuration describes; `where` names the file in messages.

    Raises:
        EStreamError: another architecture, a key that is missing or of the wrong kind, or an unsupported option.
    """
    return family_of(config, where).spec(Config(config, where))
