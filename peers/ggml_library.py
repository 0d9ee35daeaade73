"""ggml's public C interface, as far as a layer of experts needs it, from the shared libraries of llama-cpp-python."""

import ctypes
import importlib.metadata
import importlib.util
import os
import sys
from ctypes import POINTER, Structure, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path


class InitParams(Structure):
    """struct ggml_init_params."""

    _fields_ = (("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool))


class TypeTraits(Structure):
    """struct ggml_type_traits, up to the function that dequantises."""

    _fields_ = (
        ("type_name", c_char_p),
        ("blck_size", c_int64),
        ("blck_size_interleave", c_int64),
        ("type_size", c_size_t),
        ("is_quantized", c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int64)),
    )


class Feature(Structure):
    """struct ggml_backend_feature."""

    _fields_ = (("name", c_char_p), ("value", c_char_p))


# enum ggml_type, ggml.h
TYPES = {"q4_0": 2, "q4_1": 3, "q5_0": 6, "q4_K": 12, "iq4_nl": 20, "iq4_xs": 23, "mxfp4": 39}
F32, I32 = 0, 26

# name: (result, arguments); tensors, graphs, buffers and the like are opaque addresses
_BASE = {
    "ggml_init": (c_void_p, [InitParams]),
    "ggml_free": (None, [c_void_p]),
    "ggml_version": (c_char_p, []),
    "ggml_commit": (c_char_p, []),
    "ggml_tensor_overhead": (c_size_t, []),
    "ggml_graph_overhead_custom": (c_size_t, [c_size_t, c_bool]),
    "ggml_new_tensor_2d": (c_void_p, [c_void_p, c_int, c_int64, c_int64]),
    "ggml_new_tensor_3d": (c_void_p, [c_void_p, c_int, c_int64, c_int64, c_int64]),
    "ggml_set_input": (None, [c_void_p]),
    "ggml_set_output": (None, [c_void_p]),
    "ggml_mul_mat_id": (c_void_p, [c_void_p] * 4),
    "ggml_swiglu_split": (c_void_p, [c_void_p] * 3),
    "ggml_mul": (c_void_p, [c_void_p] * 3),
    "ggml_add": (c_void_p, [c_void_p] * 3),
    "ggml_cont": (c_void_p, [c_void_p] * 2),
    "ggml_view_2d": (c_void_p, [c_void_p, c_void_p, c_int64, c_int64, c_size_t, c_size_t]),
    "ggml_new_graph_custom": (c_void_p, [c_void_p, c_size_t, c_bool]),
    "ggml_build_forward_expand": (None, [c_void_p, c_void_p]),
    "ggml_row_size": (c_size_t, [c_int, c_int64]),
    "ggml_get_type_traits": (POINTER(TypeTraits), [c_int]),
    "ggml_quantize_chunk": (c_size_t, [c_int, c_void_p, c_void_p, c_int64, c_int64, c_int64, POINTER(c_float)]),
    "ggml_backend_buft_name": (c_char_p, [c_void_p]),
    "ggml_backend_alloc_ctx_tensors_from_buft": (c_void_p, [c_void_p, c_void_p]),
    "ggml_backend_buffer_free": (None, [c_void_p]),
    "ggml_backend_buffer_set_usage": (None, [c_void_p, c_int]),
    "ggml_backend_tensor_set": (None, [c_void_p, c_void_p, c_size_t, c_size_t]),
    "ggml_backend_tensor_get": (None, [c_void_p, c_void_p, c_size_t, c_size_t]),
    "ggml_backend_get_default_buffer_type": (c_void_p, [c_void_p]),
    "ggml_backend_graph_compute": (c_int, [c_void_p, c_void_p]),
    "ggml_backend_dev_supports_op": (c_bool, [c_void_p, c_void_p]),
    "ggml_backend_reg_dev_get": (c_void_p, [c_void_p, c_size_t]),
    "ggml_backend_reg_get_proc_address": (c_void_p, [c_void_p, c_char_p]),
    "ggml_gallocr_new": (c_void_p, [c_void_p]),
    "ggml_gallocr_free": (None, [c_void_p]),
    "ggml_gallocr_alloc_graph": (c_bool, [c_void_p, c_void_p]),
}
_CPU = {
    "ggml_backend_cpu_init": (c_void_p, []),
    "ggml_backend_cpu_reg": (c_void_p, []),
    "ggml_backend_cpu_set_n_threads": (None, [c_void_p, c_int]),
}
_LLAMA = {"llama_print_system_info": (c_char_p, [])}
_SUFFIX = ".dylib" if os.uname().sysname == "Darwin" else ".so"


class Library:
    """The functions above as attributes, and the CPU backend: `cpu` with its device and its buffer types by name."""

    def __init__(self):
        package = importlib.util.find_spec("llama_cpp")  # found, not imported: only its libraries are wanted
        folder = Path(package.origin).parent / "lib"
        for name, functions in (("ggml-base", _BASE), ("ggml-cpu", _CPU), ("ggml", {}), ("llama", _LLAMA)):
            loaded = ctypes.CDLL(str(folder / f"lib{name}{_SUFFIX}"), mode=ctypes.RTLD_GLOBAL)
            for function, (result, arguments) in functions.items():
                bound = getattr(loaded, function)
                bound.restype, bound.argtypes = result, arguments
                setattr(self, function, bound)
        self.cpu = self.ggml_backend_cpu_init()
        self._register = self.ggml_backend_cpu_reg()
        self.device = self.ggml_backend_reg_dev_get(self._register, 0)

    def buffer_types(self):
        """The plain buffer type, and those that keep weights in a form of their own, in llama.cpp's order."""
        get = self._procedure(b"ggml_backend_dev_get_extra_bufts", POINTER(c_void_p), c_void_p)
        found, extra, i = {}, get(self.device) if get else None, 0
        while extra and extra[i]:
            found[self.ggml_backend_buft_name(extra[i]).decode()] = extra[i]
            i += 1
        return found | {"CPU": self.ggml_backend_get_default_buffer_type(self.cpu)}

    def features(self):
        """What the CPU backend says that it was built with and runs on."""
        get = self._procedure(b"ggml_backend_get_features", POINTER(Feature), c_void_p)
        found, features, i = {}, get(self._register) if get else None, 0
        while features and features[i].name:
            found[features[i].name.decode()] = features[i].value.decode()
            i += 1
        return found

    def build(self):
        """Versions, flags and the line of features."""
        flags = Path(sys.prefix) / "llama-cpp-build.txt"  # written by `make peers`
        return {
            "llama-cpp-python": importlib.metadata.version("llama-cpp-python"),
            "ggml": f"{self.ggml_version().decode()} {self.ggml_commit().decode()}",
            "flags": flags.read_text().strip() if flags.exists() else "not recorded",
            "system_info": self.llama_print_system_info().decode().strip(),
            "features": self.features(),
            "buffer_types": list(self.buffer_types()),
        }

    def _procedure(self, name, result, *arguments):
        address = self.ggml_backend_reg_get_proc_address(self._register, name)
        return ctypes.CFUNCTYPE(result, *arguments)(address) if address else None
