"""Whole prefills against llama.cpp's, with the same weights."""

from estream_lab.bench.prefill.comparison import compare_prefill as compare_prefill
