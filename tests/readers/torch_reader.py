"""Reads and writes the checkpoints of tests/processes/torch_programs/tied_model.cpp by safetensors.torch.

    torch_reader.py load STEP_FOLDER FILE    loads the model's files into the same model of PyTorch's; its bytes are those in FILE
    torch_reader.py save STEP_FOLDER FILE    writes the model's only file anew, with other values, and their bytes to FILE

Needs a Python that can import torch: build/against/python (bench/against/setup).
"""
import pathlib
import sys
import tempfile

import torch
from safetensors.torch import load_file, load_model, save_file, save_model


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = self.decoder = torch.nn.Linear(6, 6)
        self.norm = torch.nn.BatchNorm1d(6)
        self.head = torch.nn.Linear(6, 3)
        self.to(torch.bfloat16)

    def content(self):
        return b"".join(tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
                        for _, tensor in sorted(self.state_dict().items()))


def load(files, expected):
    tensors = {}
    for file in files:
        tensors |= load_file(file)
    assert tensors["decoder.weight"].dtype == torch.bfloat16, tensors["decoder.weight"].dtype
    assert not any(name.startswith("encoder.") for name in tensors), "a tied tensor is there twice"
    model = Model()
    with tempfile.NamedTemporaryFile() as together:
        save_file(tensors, together.name)
        load_model(model, together.name)  # strict: refuses names that are missing, or too many
    assert model.encoder.weight is model.decoder.weight
    assert model.content() == expected.read_bytes(), "PyTorch's model has other bytes"


def save(files, expected):
    (file,) = files
    model = Model()
    save_model(model, file)
    expected.write_bytes(model.content())


{"load": load, "save": save}[sys.argv[1]](sorted(pathlib.Path(sys.argv[2]).glob("model-*.safetensors")), pathlib.Path(sys.argv[3]))
