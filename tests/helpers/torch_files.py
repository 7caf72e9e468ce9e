"""Files as torch.save writes them, put together from the operations of their pickles, so that any of them can be wrong."""

import io
import pickle
import struct
import zipfile

import numpy as np

from attnflow.models import torch_pickle


def pushed(value):
    """The operations that push a plain value."""
    return pickle.dumps(value, 2)[2:-1]


def tensor(key, array, *, name=b"torch._utils\n_rebuild_tensor_v2\n", **wrong):
    """The operations that push a tensor."""
    kind = {"float64": b"Double", "float32": b"Float", "float16": b"Half", "int64": b"Long"}[array.dtype.name]
    strides = tuple(one // array.itemsize for one in array.strides)
    says = {"count": array.size, "offset": 0, "shape": array.shape, "strides": strides} | wrong
    storage = b"(" + pushed("storage") + b"ctorch\n" + kind + b"Storage\n" + pushed(key) + pushed("cpu")
    storage += pushed(says["count"]) + b"tQ"
    rest = b"".join(pushed(says[one]) for one in ("offset", "shape", "strides")) + pushed(False)
    return b"c" + name + b"(" + storage + rest + b"ccollections\nOrderedDict\n)RtR"


def index_of(entries):
    """The pickle of a dictionary, from the operations of its values."""
    return b"\x80\x02}" + b"".join(pushed(name) + value + b"s" for name, value in entries.items()) + b"."


def zip_format(index, storages):
    """The format of torch 1.6 and later."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", index)
        for key, array in storages.items():
            archive.writestr(f"archive/data/{key}", array.tobytes("A"))
    return file.getvalue()


def older_format(index, storages):
    """The format before torch 1.6."""
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}
    pieces = [pickle.dumps(one, 2) for one in (torch_pickle.MAGIC, torch_pickle.VERSION, system)]
    pieces += [index, pickle.dumps(list(storages), 2)]
    pieces += [struct.pack("<q", array.size) + array.tobytes("A") for array in storages.values()]
    return b"".join(pieces)


def saved(arrays, form):
    """A state dictionary as torch.save writes it."""
    keys = {name: str(place) for place, name in enumerate(arrays)}
    index = index_of({name: tensor(keys[name], array) for name, array in arrays.items()})
    return form(index, {keys[name]: array for name, array in arrays.items()})


PLAIN = np.arange(6.0)
TOUCH = b"cposix\nsystem\n(" + pushed("touch hostile") + b"tR"
HOSTILE = {
    "runs a command": (TOUCH, "names posix.system"),
    "evaluates": (b"cbuiltins\neval\n(" + pushed("1") + b"tR", "names builtins.eval"),
    "imports": (b"cimportlib\nimport_module\n(" + pushed("os") + b"tR", "names importlib.import_module"),
    "another function of torch": (b"ctorch\nload\n)R", "names torch.load"),
    "a dotted name": (b"\x8c\x05torch\x8c\x12FloatStorage.dtype\x93", "names torch.FloatStorage.dtype"),
    "a whole module": (tensor("0", PLAIN, name=b"torch.nn.modules.linear\nLinear\n"), "names torch.nn"),
    "a number": (pushed(3), "is not a tensor"),
    "a longer storage": (tensor("0", PLAIN, count=7), "6 numbers in place of 7"),
    "a larger tensor": (tensor("0", PLAIN, shape=(7,)), "larger than its storage"),
    "an offset": (tensor("0", PLAIN, offset=1), "larger than its storage"),
    "a negative offset": (tensor("0", PLAIN, offset=-1), "not a whole number"),
    "a negative stride": (tensor("0", PLAIN, strides=(-1,)), "not a whole number"),
    "an absurd size": (tensor("0", PLAIN, shape=(10**12,), strides=(0,)), "repeats numbers"),
    "many dimensions": (tensor("0", PLAIN, shape=(1,) * 40, strides=(1,) * 40), "impossible shape"),
    "no storage": (tensor("9", PLAIN), "no whole file"),
}
