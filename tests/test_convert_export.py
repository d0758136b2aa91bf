import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import symshare
from symshare import bake, export, groups, load_tensors
from symshare.convert import exporting
from symshare.layers import GroupBatchNorm, GroupConv2d, GroupPool, LiftConv2d
from symshare.models import SMALL, GroupCNN
from symshare.representations import Fixed, Gated, Sinkhorn

C4 = groups.rotations(4)


def network(representation):
    return GroupCNN(SMALL, 1, 10, 4, [representation] * 3, (9, 9))


class TwoInputs(nn.Module):
    """A user's model: two inputs, a residual connection, a measure, a batch norm to fold."""

    def __init__(self):
        super().__init__()
        shared = Gated(C4)
        nn.init.normal_(shared.gate.logits)
        self.lift = LiftConv2d(1, 4, 3, shared, padding=1)
        self.conv = GroupConv2d(4, 4, 3, Sinkhorn(4, 36), padding=1)
        self.norm = GroupBatchNorm(4, gate=shared.gate)
        self.norm.norm.running_mean.normal_()
        self.pool = GroupPool(shared.gate)

    def forward(self, x, scale):
        f = self.lift(x)
        f = f + self.norm(self.conv(f)).relu()
        return self.pool(f).mean((-2, -1)) * scale


def batch(n):
    return torch.randn(n, 1, 9, 9)


CASES = {
    "fixed": (lambda: network(Fixed(C4)), lambda n: (batch(n),)),
    "gated": (lambda: network(Gated(C4)), lambda n: (batch(n),)),
    "two inputs": (TwoInputs, lambda n: (batch(n), torch.randn(n, 1))),
}


@pytest.mark.parametrize("case", CASES)
def test_pt2_round_trip(tmp_path, case, unchecked):
    make, inputs = CASES[case]
    model = make().train()
    path = export(model, "pt2", tmp_path / "net.pt2", inputs(1))
    assert model.training
    facts = {"symshare.json": ""}
    program = torch.export.load(path, extra_files=facts).module()
    assert json.loads(facts["symshare.json"])["symshare"] == symshare.__version__
    model.eval()
    for n in (1, 5):
        x = inputs(n)
        torch.testing.assert_close(program(*x), model(*x), atol=1e-5, rtol=0)
    assert program(*inputs(0)).shape[0] == 0


@pytest.mark.parametrize("case", CASES)
def test_onnx_round_trip(tmp_path, capfd, case, unchecked):
    import onnxruntime

    make, inputs = CASES[case]
    model = make().train()
    example = inputs(3)
    path = export(model, "onnx", tmp_path / "net.onnx", example if len(example) > 1 else example[0])
    assert capfd.readouterr() == ("", "")
    session = onnxruntime.InferenceSession(path)
    names = [x.name for x in session.get_inputs()]
    assert names == (["input"] if len(example) == 1 else ["input0", "input1"])
    assert session.get_modelmeta().custom_metadata_map["symshare"] == symshare.__version__
    model.eval()
    for n in (1, 5):
        x = inputs(n)
        feed = {name: value.numpy() for name, value in zip(names, x, strict=True)}
        (y,) = session.run(["output"], feed)
        torch.testing.assert_close(torch.from_numpy(y), model(*x), atol=1e-5, rtol=0)


def test_onnx_has_the_nodes_of_a_plain_network(tmp_path):
    import onnx

    def kinds(model, name):
        path = export(model, "onnx", tmp_path / name, batch(2))
        return [node.op_type for node in onnx.load(path).graph.node]

    blocks = []
    for channels in (1, 16, 16):
        blocks += [nn.Conv2d(channels, 16, 3), nn.GroupNorm(1, 16, affine=False), nn.ReLU()]
    plain = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    assert kinds(network(Fixed(C4)), "baked.onnx") == kinds(plain, "plain.onnx")


def test_safetensors_round_trip(tmp_path):
    model = TwoInputs()
    path = export(model, "safetensors", str(tmp_path / "new" / "net.safetensors"))
    assert isinstance(path, Path)
    baked = bake(model)
    tensors = load_tensors(path)
    assert tensors.keys() == baked.state_dict().keys()
    assert all(torch.equal(tensors[name], value) for name, value in baked.state_dict().items())
    with torch.no_grad():
        for p in baked.parameters():
            p.zero_()
    baked.load_state_dict(tensors)
    x = (batch(2), torch.randn(2, 1))
    torch.testing.assert_close(baked(*x), model.eval()(*x), atol=1e-5, rtol=0)
    with safe_open(path, "pt") as file:
        assert file.metadata() == {
            "content": "symshare baked network",
            "format": "pt",
            "schema": "1",
            "symshare": symshare.__version__,
        }


def test_tied_layers_are_written_under_both_names(tmp_path):
    tied = GroupConv2d(2, 2, 3, Fixed(C4))
    model = nn.Sequential(LiftConv2d(1, 2, 3, Fixed(C4)), tied, tied)
    tensors = load_tensors(export(model, "safetensors", tmp_path / "net"))
    assert torch.equal(tensors["1.1.weight"], tensors["2.1.weight"])


def test_a_baked_network_is_written_as_it_is(tmp_path):
    baked = bake(network(Fixed(C4)), hard=True)
    baked.train()
    tensors = load_tensors(export(baked, "safetensors", tmp_path / "net"))
    assert all(torch.equal(tensors[name], value) for name, value in baked.state_dict().items())
    assert baked.training


def test_files_of_another_schema_or_program_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "net.safetensors"
    monkeypatch.setattr("symshare.convert.exporting.SCHEMA", 3)
    export(network(Fixed(C4)), "safetensors", path)
    monkeypatch.undo()
    with pytest.raises(
        ValueError, match=r"net\.safetensors has schema 3.*up to 1; upgrade symshare"
    ):
        load_tensors(path)
    save_file({"x": torch.ones(1)}, path)
    with pytest.raises(ValueError, match="is no file of symshare.export"):
        load_tensors(path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ValueError, match="is damaged"):
        load_tensors(path)
    with pytest.raises(OSError, match="absent"):
        load_tensors(tmp_path / "absent")


def test_refusals_leave_no_file(tmp_path, monkeypatch):
    model, path = network(Fixed(C4)), tmp_path / "net"
    with pytest.raises(ValueError, match="one of 'onnx', 'pt2', 'safetensors', got 'tflite'"):
        export(model, "tflite", path)
    for format in ("onnx", "pt2"):
        with pytest.raises(ValueError, match=f"{format!r} needs an example"):
            export(model, format, path)
        with pytest.raises(ValueError, match=r"batch of at least one, got \(0, 1, 9, 9\)"):
            export(model, format, path, batch(0))
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'onnx and onnxscript.*pip install "symshare\[onnx\]"'):
        export(model, "onnx", path, batch(2))
    assert list(tmp_path.iterdir()) == []
