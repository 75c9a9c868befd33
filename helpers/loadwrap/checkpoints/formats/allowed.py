"""What ``torch.load(weights_only=True)`` accepts, written down so that nothing has to be imported.

A test compares the names with those of the installed torch.
"""

from __future__ import annotations

_KINDS = (
    "BFloat16 Bool Byte Char ComplexDouble ComplexFloat Double Float Half Int Long Short"
).split()
_QUANTIZED = ("QInt32", "QInt8", "QUInt2x4", "QUInt4x2", "QUInt8")

# Names of legacy storage and tensor classes, and the dtype each one means.
STORAGE_DTYPE = {
    "BFloat16": "bfloat16",
    "Bool": "bool",
    "Byte": "uint8",
    "Char": "int8",
    "ComplexDouble": "complex128",
    "ComplexFloat": "complex64",
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "Int": "int32",
    "Long": "int64",
    "Short": "int16",
    "QInt32": "qint32",
    "QInt8": "qint8",
    "QUInt2x4": "quint2x4",
    "QUInt4x2": "quint4x2",
    "QUInt8": "quint8",
}

# Bytes an element takes.
ITEMSIZE = {
    **dict.fromkeys(("bool", "uint8", "int8", "qint8", "quint8", "quint4x2", "quint2x4"), 1),
    **dict.fromkeys(("bits8", "bits4x2", "bits2x4", "bits1x8", "float4_e2m1fn_x2"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), 1),
    **dict.fromkeys((f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16", "bits16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32", "complex32", "qint32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
    "float8_e8m0fnu": 1,
}

REBUILDERS = (
    "_rebuild_device_tensor_from_cpu_tensor",
    "_rebuild_device_tensor_from_numpy",
    "_rebuild_meta_tensor_no_storage",
    "_rebuild_nested_tensor",
    "_rebuild_parameter",
    "_rebuild_parameter_with_state",
    "_rebuild_qtensor",
    "_rebuild_sparse_tensor",
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_rebuild_tensor_v3",
    "_rebuild_wrapper_subclass",
)

ALLOWED = frozenset(
    [
        "_codecs.encode",
        "builtins.bytearray",
        "builtins.complex",
        "builtins.set",
        "collections.Counter",
        "collections.OrderedDict",
        "torch.Size",
        "torch.Tensor",
        "torch.device",
        "torch.nn.parameter.Parameter",
        "torch.serialization._get_layout",
        "torch.storage.TypedStorage",
        "torch.storage.UntypedStorage",
        "torch._tensor._rebuild_from_type_v2",
        *(f"torch._utils.{name}" for name in REBUILDERS),
        *(f"torch.{dtype}" for dtype in ITEMSIZE),
        *(f"torch.{kind}Storage" for kind in (*_KINDS, *_QUANTIZED)),
        *(f"torch.{kind}Tensor" for kind in _KINDS if "Complex" not in kind),
        *(f"torch.cuda.{kind}Storage" for kind in _KINDS),
        *(f"torch.cuda.{kind}Tensor" for kind in _KINDS if "Complex" not in kind),
        *(
            f"torch.{device}sparse.{kind}Tensor"
            for device in ("", "cuda.")
            for kind in _KINDS
            if kind != "Bool" and "Complex" not in kind
        ),
        *(
            f"torch.per_{scheme}"
            for scheme in (
                "tensor_affine",
                "tensor_symmetric",
                "channel_affine",
                "channel_symmetric",
                "channel_affine_float_qparams",
            )
        ),
    ]
)

# The opcodes that its unpickler knows; any other is refused whatever it does.
OPCODES = frozenset(b"\x80.(c\x81Rbaesut\x85\x86\x87N\x89\x88)]}\x8fJKMGXUQhjqr\x8a")

# Python 2's names, as torch maps them.
_MODULES = {
    "__builtin__": "builtins",
    "copy_reg": "copyreg",
    "Queue": "queue",
    "cPickle": "pickle",
    "UserDict": "collections",
}
_NAMES = {
    "builtins.unicode": "builtins.str",
    "builtins.xrange": "builtins.range",
    "builtins.long": "builtins.int",
}


def renamed(module: str, name: str) -> str:
    """The full name of a class or function, in Python 3's terms."""
    full = f"{_MODULES.get(module, module)}.{name}"
    return _NAMES.get(full, full)


def dtype_of(name: str) -> str | None:
    """The dtype that a storage or tensor class of torch means; None for any other name."""
    kind = name.rpartition(".")[2].removesuffix("Storage").removesuffix("Tensor")
    return STORAGE_DTYPE.get(kind) if name.startswith("torch.") else None
