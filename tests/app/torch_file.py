# SPDX-License-Identifier: Apache-2.0
"""Files as torch.save() writes them, without torch."""
import collections
import io
import pickle
import sys
import types
import zipfile


class Tensor:
    """Floats of a storage; several may share one."""

    def __init__(self, storage, shape, strides, offset=0, kind="FloatStorage"):
        self.storage, self.shape, self.strides, self.offset, self.kind = storage, tuple(shape), tuple(strides), offset, kind

    def __reduce_ex__(self, _protocol):
        rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2
        return rebuild, (Storage(self), self.offset, self.shape, self.strides, False, collections.OrderedDict())


class Storage:
    def __init__(self, tensor):
        self.tensor = tensor


def dense(raw, shape, key):
    """raw: bytes of little-endian floats."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return Tensor((key, raw), shape, strides)


def pickled(value, protocol=2):
    """Also the storages that are met, by their keys."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def _rebuild_tensor_v2(*_arguments):
        raise AssertionError

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    kinds = {}

    def kind_of(name):
        if name not in kinds:
            kinds[name] = type(name, (), {"__module__": "torch"})
            setattr(torch, name, kinds[name])
        return kinds[name]

    storages = {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, one):
            if not isinstance(one, Storage):
                return None
            key, raw = one.tensor.storage
            storages[key] = raw
            return "storage", kind_of(one.tensor.kind), key, "cpu", len(raw) // 4

    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules.update({"torch": torch, "torch._utils": utils})
    try:
        out = io.BytesIO()
        Pickler(out, protocol).dump(value)
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    return out.getvalue(), storages


def save(value, file, protocol=2, more=()):
    content, storages = pickled(value, protocol)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/byteorder", "little")
        for key, raw in storages.items():
            archive.writestr(f"archive/data/{key}", raw)
        for name, raw in dict(more).items():
            archive.writestr(name, raw)
