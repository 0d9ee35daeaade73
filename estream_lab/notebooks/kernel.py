"""A kernel of this very Python, whatever the kernel specifications on this machine say."""

from typing import Any

import zmq
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

KERNEL_NAME = "python3"
"""What notebooks name; papermill writes parameters in this kernel's language."""


class ThisPythonKernelManager(AsyncKernelManager):
    """Starts `sys.executable -m ipykernel_launcher`: a user's `python3` specification may point to another Python."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.has_trait("transport_encryption") and zmq.has("curve"):  # jupyter_client before 8.10 has no such choice
            self.transport_encryption = "auto"

    @property
    def kernel_spec(self) -> KernelSpec:
        """The specification that this environment's ipykernel would install."""
        parts = get_kernel_dict()
        return KernelSpec(**{name: parts[name] for name in ("argv", "display_name", "language", "metadata")})
