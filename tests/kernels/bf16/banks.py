"""Random experts and routes for tests of the bf16 operator."""

from typing import Any, ClassVar

from estream_lab.kernels import bf16
from estream_lab.kernels.bf16 import reference
from tests.kernels.int8 import banks


class Bank(banks.Bank):
    """See `int8.banks.Bank`."""

    lane: ClassVar[Any] = bf16
    numpy: ClassVar[Any] = reference
