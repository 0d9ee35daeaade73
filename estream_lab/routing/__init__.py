"""Routers, routes, synthetic routes and route files. Knows nothing of slots.

A route (paper, section 3) says that one token visits one expert with one weight: layer l routes form the set
R_l = {(t_i, e_i, α_i)}.
"""

from estream_lab.routing.files import read_routes, write_routes
from estream_lab.routing.router import Router, RouterSpec, route
from estream_lab.routing.routes import Routes
from estream_lab.routing.skew import Skew, skew
from estream_lab.routing.synthetic import synthetic_routes

__all__ = [
    "Router",
    "RouterSpec",
    "Routes",
    "Skew",
    "read_routes",
    "route",
    "skew",
    "synthetic_routes",
    "write_routes",
]
