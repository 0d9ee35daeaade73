"""Quantisation, weight layouts and CPU kernels. Knows nothing of slots, stores or models."""
