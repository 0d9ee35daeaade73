"""EStream Lab: expert-streaming prefill of mixture-of-experts models (EStream, arXiv 2609.06551) as a workbench."""

__version__ = "0.1.0"
