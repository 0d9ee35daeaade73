"""What the host's fast lanes share: weights packed in q4-32x32, times activations in records.

A *record* holds 32 activations of one row as a lane multiplies them. The lanes, `kernels.int8` and `kernels.bf16`, say
how a record is made and how register blocks of records are multiplied by a strip of weights; here is what goes around
that: read `lane` (where records lie, and products with a strip), `expert` (the operator) and `product` (the
micro-kernel's choice of a register block). `variants` tells processors apart.
"""
