"""Whole prefills against llama.cpp's, with the same weights."""

from estream_lab.bench.prefill.comparison import compare_prefill as compare_prefill
from estream_lab.bench.prefill.llama import check_installed as check_installed
