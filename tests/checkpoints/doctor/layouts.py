"""Checkpoints in the shapes that people have on disk, with small random tensors.

One builder a layout: it writes into a folder and returns the path. The keys are as in the wild, the
nets are ours.
"""

from __future__ import annotations

import argparse
import collections
import copy
import json
import random
import struct
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Net(nn.Module):
    """A small net with parameters, buffers and a head."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3)
        self.bn1 = nn.BatchNorm2d(4)
        self.layer1 = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))
        self.fc = nn.Linear(4, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer1(self.bn1(self.conv1(x)))
        return self.fc(x.mean((2, 3)))


class Backbone(nn.Module):
    """The same without its head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3)
        self.bn1 = nn.BatchNorm2d(4)


class Language(nn.Module):
    """An embedding tied to the head, as language models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(11, 6)
        self.block = nn.Linear(6, 6)
        self.lm_head = nn.Linear(6, 11, bias=False)
        self.lm_head.weight = self.emb.weight


def make_net() -> Net:
    """What --model names in the tests."""
    return Net()


def trained(net: nn.Module | None = None, kind: str = "adamw") -> tuple[nn.Module, Any, Any]:
    """A net, its optimizer after one step, its scheduler."""
    net = net or Net()
    made = {
        "adamw": lambda p: torch.optim.AdamW(p, lr=3e-4),
        "adam": lambda p: torch.optim.Adam(p, lr=1e-3),
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "plain": lambda p: torch.optim.SGD(p, lr=0.1),
        "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    }[kind]
    optimizer = made(net.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    for parameter in net.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    scheduler.step()
    return net, optimizer, scheduler


def under(prefix: str, state: dict[str, Any]) -> dict[str, Any]:
    return collections.OrderedDict((prefix + key, value) for key, value in state.items())


def scaler_state() -> dict[str, Any]:
    return torch.amp.GradScaler("cpu", enabled=True).state_dict()


def save(folder: Path, content: Any, name: str = "last.pt", **options: Any) -> Path:
    path = folder / name
    torch.save(content, path, **options)
    return path


def imagenet(folder: Path) -> Path:
    net, optimizer, scheduler = trained(kind="sgd")
    return save(
        folder,
        {
            "epoch": 12,
            "arch": "resnet18",
            "state_dict": under("module.", net.state_dict()),
            "best_acc1": torch.tensor(71.3),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
        },
        "checkpoint.pth.tar",
    )


def ddp_tutorial(folder: Path) -> Path:
    return save(folder, {"MODEL_STATE": Net().state_dict(), "EPOCHS_RUN": 10}, "snapshot.pt")


def torchvision(folder: Path) -> Path:
    net, optimizer, scheduler = trained(kind="sgd")
    return save(
        folder,
        {
            "model": net.state_dict(),
            "optimizer": optimizer.state_dict(),
            "lr_scheduler": scheduler.state_dict(),
            "epoch": 3,
            "args": argparse.Namespace(lr=0.1, data="/data", batch_size=32),
            "model_ema": {"n_averaged": torch.tensor(9), **under("module.", net.state_dict())},
            "scaler": scaler_state(),
        },
        "model_3.pth",
    )


def timm(folder: Path) -> Path:
    net, optimizer, _ = trained()
    return save(
        folder,
        {
            "epoch": 7,
            "arch": "vit_tiny",
            "state_dict": under("_orig_mod.module.", net.state_dict()),
            "optimizer": optimizer.state_dict(),
            "version": 2,
            "amp_scaler": scaler_state(),
            "state_dict_ema": net.state_dict(),
            "metric": 70.1,
        },
        "checkpoint-7.pth.tar",
    )


def nanogpt(folder: Path) -> Path:
    net, optimizer, _ = trained()
    return save(
        folder,
        {
            "model": under("_orig_mod.", net.state_dict()),
            "optimizer": optimizer.state_dict(),
            "model_args": {"n_layer": 2},
            "iter_num": 2000,
            "best_val_loss": torch.tensor(1.47),
            "config": {"dtype": "float16"},
        },
        "ckpt.pt",
    )


def lightning(folder: Path) -> Path:
    net, optimizer, scheduler = trained(kind="adam")
    return save(
        folder,
        {
            "epoch": 4,
            "global_step": 1000,
            "pytorch-lightning_version": "2.4.0",
            "state_dict": under("net.", net.state_dict()),
            "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"current": {"ready": 5}}}},
            "callbacks": {"ModelCheckpoint": {"best_model_path": "a.ckpt"}},
            "optimizer_states": [optimizer.state_dict()],
            "lr_schedulers": [scheduler.state_dict()],
            "hyper_parameters": {"lr": 1e-3},
        },
        "epoch=4.ckpt",
    )


def mmengine(folder: Path) -> Path:
    net, optimizer, scheduler = trained(kind="sgd")
    return save(
        folder,
        {
            "meta": {"epoch": 12, "iter": 4000, "seed": 0, "cfg": "model = dict()"},
            "state_dict": net.state_dict(),
            "message_hub": {"log_scalars": {}, "runtime_info": {"epoch": 12}},
            "optimizer": optimizer.state_dict(),
            "param_schedulers": [scheduler.state_dict()],
        },
        "epoch_12.pth",
    )


def detectron2(folder: Path) -> Path:
    net, optimizer, scheduler = trained(kind="sgd")
    return save(
        folder,
        {
            "model": net.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "iteration": 89999,
        },
        "model_final.pth",
    )


def fairseq(folder: Path) -> Path:
    net, optimizer, _ = trained(kind="adam")
    return save(
        folder,
        {
            "args": None,
            "cfg": {"optimizer": {"lr": [0.001]}},
            "model": net.state_dict(),
            "criterion": None,
            "optimizer_history": [{"num_updates": 500, "optimizer_name": "FairseqAdam"}],
            "task_state": {},
            "extra_state": {"train_iterator": {"epoch": 3, "iterations_in_epoch": 10}},
            "last_optimizer_state": optimizer.state_dict(),
        },
        "checkpoint_last.pt",
    )


def yolo(folder: Path) -> Path:
    net = Net().half()
    return save(
        folder,
        {
            "epoch": 299,
            "best_fitness": 0.5,
            "model": net,
            "ema": copy.deepcopy(net),
            "updates": 1000,
            "optimizer": None,
            "opt": {"lr0": 0.01},
            "date": "2024-01-01",
        },
        "best.pt",
    )


def moco(folder: Path) -> Path:
    net, optimizer, _ = trained(kind="sgd")
    state = net.state_dict()
    return save(
        folder,
        {
            "epoch": 200,
            "arch": "resnet50",
            "state_dict": {
                **under("module.encoder_q.", state),
                **under("module.encoder_k.", copy.deepcopy(state)),
                "module.queue": torch.randn(4, 16),
                "module.queue_ptr": torch.zeros(1, dtype=torch.long),
            },
            "optimizer": optimizer.state_dict(),
        },
        "checkpoint_0200.pth.tar",
    )


def dino(folder: Path) -> Path:
    net, optimizer, _ = trained()
    state = net.state_dict()
    return save(
        folder,
        {
            "student": {
                **under("module.backbone.", state),
                "module.head.mlp.weight": torch.randn(3, 5),
            },
            "teacher": {
                **under("backbone.", copy.deepcopy(state)),
                "head.mlp.weight": torch.ones(3, 5),
            },
            "optimizer": optimizer.state_dict(),
            "epoch": 100,
            "args": argparse.Namespace(arch="vit_small"),
            "dino_loss": {"center": torch.zeros(1, 5)},
            "fp16_scaler": scaler_state(),
        },
        "checkpoint.pth",
    )


def dinov2(folder: Path) -> Path:
    model = {"student.backbone._fsdp_wrapped_module._flat_param": torch.randn(100)}
    for block in range(2):
        name = f"student.backbone._fsdp_wrapped_module.blocks.{block}._fsdp_wrapped_module"
        model[f"{name}._flat_param"] = torch.randn(50)
    return save(folder, {"model": model, "optimizer": {}, "iteration": 999}, "model.rank_0.pth")


def simclr(folder: Path) -> Path:
    net, optimizer, _ = trained(kind="adam")
    state = under("backbone.", net.state_dict())
    return save(
        folder,
        {
            "epoch": 100,
            "arch": "resnet18",
            "state_dict": state,
            "optimizer": optimizer.state_dict(),
        },
        "checkpoint_0100.pth.tar",
    )


def byol(folder: Path) -> Path:
    net = Net()
    return save(
        folder,
        {
            **under("online_encoder.net.", net.state_dict()),
            **under("target_encoder.net.", copy.deepcopy(net).state_dict()),
            "online_predictor.0.weight": torch.randn(4, 4),
        },
        "learner.pt",
    )


def mae(folder: Path) -> Path:
    net, optimizer, _ = trained(net=Net())
    state = {k: v for k, v in net.state_dict().items() if not k.startswith("fc.")}
    return save(
        folder,
        {
            "model": state,
            "optimizer": optimizer.state_dict(),
            "epoch": 799,
            "scaler": scaler_state(),
            "args": argparse.Namespace(mask_ratio=0.75),
        },
        "checkpoint-799.pth",
    )


def clip(folder: Path) -> Path:
    path = folder / "ViT-B-32.pt"
    torch.jit.script(Net().half().eval()).save(str(path))
    return path


def whisper(folder: Path) -> Path:
    state = {k: v.half() for k, v in Net().state_dict().items()}
    return save(folder, {"dims": {"n_mels": 80}, "model_state_dict": state}, "tiny.pt")


def write_safetensors(path: Path, state: dict[str, torch.Tensor]) -> Path:
    """A safetensors file, written here by hand so that the reader is tested against the format."""
    codes = {torch.float32: "F32", torch.float16: "F16", torch.int64: "I64"}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, tensor in state.items():
        raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": codes[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(body), len(body) + len(raw)],
        }
        body += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def trainer_folder(folder: Path) -> Path:
    """What a Hugging Face Trainer leaves: a tied pair of which one is dropped."""
    net, optimizer, scheduler = trained(Language())
    state = {k: v for k, v in net.state_dict().items() if k != "lm_head.weight"}
    place = folder / "checkpoint-500"
    place.mkdir()
    write_safetensors(place / "model.safetensors", state)
    torch.save(optimizer.state_dict(), place / "optimizer.pt")
    torch.save(scheduler.state_dict(), place / "scheduler.pt")
    torch.save({"cpu": torch.get_rng_state()}, place / "rng_state_0.pth")
    (place / "trainer_state.json").write_text(json.dumps({"epoch": 1.5, "global_step": 500}))
    (place / "config.json").write_text("{}")
    return place


def shards(folder: Path, suffix: str = "safetensors") -> Path:
    state = Net().state_dict()
    names = list(state)
    place = folder / "sharded"
    place.mkdir()
    mapping = {}
    for index in range(2):
        file = f"model-{index + 1:05}-of-00002.{suffix}"
        part = {name: state[name] for name in names[index::2]}
        if suffix == "safetensors":
            write_safetensors(place / file, part)
        else:
            torch.save(part, place / file)
        mapping.update(dict.fromkeys(part, file))
    index = {"metadata": {"total_size": 1}, "weight_map": mapping}
    (place / f"model.{suffix}.index.json").write_text(json.dumps(index))
    return place


def peft(folder: Path) -> Path:
    state = {}
    for name in ("q_proj", "v_proj"):
        for part, shape in (("lora_A", (2, 6)), ("lora_B", (6, 2))):
            state[f"base_model.model.layers.0.{name}.{part}.weight"] = torch.randn(shape)
    return write_safetensors(folder / "adapter_model.safetensors", state)


def averaged(folder: Path) -> Path:
    average = torch.optim.swa_utils.AveragedModel(Net())
    return save(folder, average.state_dict(), "swa.pt")


def deepspeed(folder: Path, ranks: int = 2) -> Path:
    place = folder / "ds"
    step = place / "global_step300"
    step.mkdir(parents=True)
    (place / "latest").write_text("global_step300")
    torch.save(
        {
            "module": Net().state_dict(),
            "buffer_names": ["bn1.running_mean"],
            "optimizer": None,
            "param_shapes": [],
            "lr_scheduler": {"last_batch_iteration": 300},
            "dp_world_size": ranks,
            "ds_config": {},
            "ds_version": "0.14",
            "global_steps": 300,
        },
        step / "mp_rank_00_model_states.pt",
    )
    for rank in range(ranks):
        torch.save(
            {"optimizer_state_dict": {}}, step / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        )
    return place


def megatron(folder: Path) -> Path:
    place = folder / "megatron"
    for rank in range(2):
        below = place / "iter_0000100" / f"mp_rank_{rank:02}"
        below.mkdir(parents=True)
        state = {"language_model": {"encoder": dict(Net().state_dict())}}
        torch.save({"model": state, "iteration": 100}, below / "model_optim_rng.pt")
    (place / "latest_checkpointed_iteration.txt").write_text("100\n")
    return place


def everything(folder: Path) -> Path:
    """A file with all that a resume needs."""
    net, optimizer, scheduler = trained()
    return save(
        folder,
        {
            "model": net.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "scaler": scaler_state(),
            "ema": {"n_averaged": torch.tensor(3), **under("module.", net.state_dict())},
            "rng": {"torch": torch.get_rng_state(), "python": list(random.getstate()[1])},
            "sampler": {"epoch": 3, "position": 64},
            "epoch": 3,
            "step": 180,
        },
        "whole.pt",
    )


LAYOUTS = {
    builder.__name__: builder
    for builder in (
        imagenet, ddp_tutorial, torchvision, timm, nanogpt, lightning, mmengine, detectron2,
        fairseq, yolo, moco, dino, dinov2, simclr, byol, mae, clip, whisper, trainer_folder, shards,
        peft, averaged, deepspeed, megatron, everything,
    )
}  # fmt: skip
