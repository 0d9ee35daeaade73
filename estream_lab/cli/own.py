"""What `estream compare` is asked about: a public model on a device, or a store on this computer by its profile."""

import argparse
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from estream_lab.cli.requests import FAMILY, device_asked, routes_asked
from estream_lab.errors import EStreamError
from estream_lab.routing import Routes
from estream_lab.simulate import MODELS, Device, ModelShape
from estream_lab.streaming import Store
from estream_lab.tuning.own_device import own_device
from estream_lab.tuning.pipeline_file import pipeline_path, read_pipeline
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.profile_file import check_profile, load_profile


def subject(options: argparse.Namespace) -> tuple[Device, ModelShape, dict[int, Routes], str]:
    """Device, model, and the routes by layer with where they are from; of a store they name places, not experts: those
    in one group are neighbours.

    Without --tokens and --routes, a store's request is as long as its profile's.

    Raises:
        EStreamError: options that contradict each other, a store without a profile, or routes of another model.
    """
    if options.store is None:
        if options.profile is not None:
            raise EStreamError("--profile is of a store: give the store, too")
        model = MODELS[options.family or FAMILY]
        return device_asked(options), model, *routes_asked(options, model)
    if options.family is not None:
        raise EStreamError("give a store or --family, not both: each names a model")
    if options.device is not None and options.profile is not None:
        raise EStreamError("give --device or --profile, not both: each says how fast things are")
    store = Store(options.store)
    model = ModelShape.of_spec(store.spec, store.path.name, store.stride)
    if options.device is not None:
        device = device_asked(options)
    else:
        profile = _profile(options, store)
        device = own_device(profile, model)
        if options.tokens is None and options.routes is None:
            options.tokens = profile.origin.tokens
    routes, origin = routes_asked(options, model)
    return device, model, _placed(routes, store), origin


def _profile(options: argparse.Namespace, store: Store) -> Profile:
    if options.profile is not None:
        return load_profile(options.profile, store)
    found = read_pipeline(store)
    if found is None:
        raise EStreamError(
            f"{store.path} has no configuration whose profile could serve ({pipeline_path(store)}): give a file by "
            "estream profile with --profile, or another machine with --device"
        )
    profile = found.profile()
    check_profile(profile, store, str(found.path))
    return profile


def _placed(routes: Mapping[int, Routes], store: Store) -> dict[int, Routes]:
    """Experts by their places in the store's order; routes of other layers or experts are left for others to refuse."""
    if sorted(routes) != list(range(len(store.layers))):
        return dict(routes)
    placed = {}
    for layer, records in enumerate(store.layers):
        of_layer = routes[layer]
        if len(of_layer) and int(of_layer.expert.max()) >= len(records.order):
            return dict(routes)
        places = np.argsort(records.order).astype(np.int32)  # (E,)
        placed[layer] = replace(of_layer, expert=places[of_layer.expert])
    return placed
