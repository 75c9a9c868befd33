"""The checkpoints that people have, each built small, and what must be said about it."""

from __future__ import annotations

import copy
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass
class Layout:
    name: str
    checkpoint: Any
    model: nn.Module
    verdict: str
    container: str = ""
    prefix: str = ""
    added: str = ""
    wrappers: tuple[str, ...] = ()
    model_wrappers: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    fix: str | None = None
    """The whole line; None if it is only tried, "" if there must be none."""
    truth: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """What the model must hold after the line."""


def fresh(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Builds a net whose every number, buffers too, is its own."""
    torch.manual_seed(seed)
    net = make()
    for value in net.state_dict().values():
        if value.is_floating_point():
            value.copy_(torch.randn(value.shape))
    return net


class ResNet(nn.Module):
    def __init__(self, classes: int | None = 5) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.layer1 = nn.Sequential(nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3))
        self.layer2 = nn.Sequential(nn.Conv2d(4, 8, 3))
        if classes:
            self.fc = nn.Linear(8, classes)


class Block(nn.Module):
    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.attn = nn.Linear(size, 3 * size)
        self.mlp = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))


class ViT(nn.Module):
    def __init__(self, depth: int = 4, head: int | None = None, chunks: int = 0) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 4))
        self.patch_embed = nn.Conv2d(3, 4, 2)
        blocks = [Block() for _ in range(depth)]
        if chunks:
            # As DINOv2 does it: numbers go on inside the chunks, identities fill up.
            each = depth // chunks
            self.blocks = nn.ModuleList(
                nn.ModuleList(
                    [nn.Identity()] * (chunk * each) + blocks[chunk * each : (chunk + 1) * each]
                )
                for chunk in range(chunks)
            )
        else:
            self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(4)
        if head:
            self.head = nn.Linear(4, head)


class GPT(nn.Module):
    def __init__(self, tied: bool = True) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {"wte": nn.Embedding(7, 4), "h": nn.ModuleList([Block(), Block()])}
        )
        self.lm_head = nn.Linear(4, 7, bias=False)
        if tied:
            self.lm_head.weight = self.transformer["wte"].weight


class Positions(nn.Module):
    """A text encoder whose position ids were saved once and are not any more."""

    def __init__(self, saved: bool) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(7, 4)
        self.register_buffer("position_ids", torch.arange(5)[None], persistent=saved)
        self.layer = nn.Linear(4, 4)


class Holder(nn.Module):
    """A net with named children, such as a learner around a backbone."""

    def __init__(self, **children: nn.Module) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)


def under(prefix: str, state: Mapping[str, Any]) -> OrderedDict[str, Any]:
    return OrderedDict((prefix + key, value) for key, value in state.items())


def optimizer_of(net: nn.Module) -> dict[str, Any]:
    optimizer = torch.optim.AdamW(net.parameters())
    for one in net.parameters():
        one.grad = torch.ones_like(one)
    optimizer.step()
    return optimizer.state_dict()


def layouts() -> Iterator[Layout]:
    yield from frameworks()
    yield from self_supervised()
    yield from language()
    yield from wrapped()
    yield from sharded()


def frameworks() -> Iterator[Layout]:
    saved = fresh(ResNet, 1)
    truth = copy.deepcopy(saved.state_dict())
    model = fresh(ResNet, 2)
    yield Layout(
        "PyTorch imagenet example",
        {
            "epoch": 3,
            "arch": "resnet18",
            "state_dict": under("module.", truth),
            "best_acc1": torch.tensor(71.2),
            "optimizer": optimizer_of(saved),
            "scheduler": {"last_epoch": 3},
        },
        model,
        "wrapper",
        "state_dict",
        "module.",
        wrappers=("module",),
        fix='model.load_state_dict({key.removeprefix("module."): value '
        'for key, value in ckpt["state_dict"].items()})',
        truth=truth,
    )
    yield Layout(
        "PyTorch DDP tutorial",
        {"MODEL_STATE": truth, "EPOCHS_RUN": 10},
        model,
        "fits",
        "MODEL_STATE",
        fix='model.load_state_dict(ckpt["MODEL_STATE"])',
        truth=truth,
    )
    ema = torch.optim.swa_utils.AveragedModel(fresh(ResNet, 3)).state_dict()
    references = {
        "model": truth,
        "optimizer": optimizer_of(saved),
        "lr_scheduler": {"last_epoch": 3},
        "epoch": 3,
        "args": Namespace(lr=0.1),
        "model_ema": ema,
        "scaler": {"scale": 65536.0},
    }
    yield Layout(
        "torchvision references",
        references,
        model,
        "fits",
        "model",
        said=('ckpt["model_ema"] would fit too',),
        fix='model.load_state_dict(ckpt["model"])',
        truth=truth,
    )
    yield Layout(
        "torchvision references, its average alone",
        {"model_ema": ema, "epoch": 3},
        model,
        "wrapper",
        "model_ema",
        "module.",
        wrappers=("module",),
        said=("n_averaged", "the counter of AveragedModel"),
        truth={key[7:]: value for key, value in ema.items() if key != "n_averaged"},
    )
    yield Layout(
        "timm, compile around DDP",
        {
            "epoch": 3,
            "arch": "resnet18",
            "state_dict": under("_orig_mod.module.", truth),
            "optimizer": optimizer_of(saved),
            "version": 2,
            "args": None,
            "state_dict_ema": fresh(ResNet, 3).state_dict(),
            "metric": 71.2,
        },
        model,
        "wrapper",
        "state_dict",
        "_orig_mod.module.",
        wrappers=("_orig_mod", "module"),
        said=('ckpt["state_dict_ema"] would fit too',),
        truth=truth,
    )
    lightning = {
        "epoch": 3,
        "global_step": 100,
        "pytorch-lightning_version": "2.5",
        "state_dict": under("net.", truth),
        "loops": {"fit_loop": {"state_dict": {}}},
        "callbacks": {"ModelCheckpoint": {"best_model_score": torch.tensor(0.5)}},
        "optimizer_states": [optimizer_of(saved)],
        "lr_schedulers": [{"last_epoch": 3}],
        "hyper_parameters": {"lr": 0.1},
    }
    yield Layout(
        "Lightning, into the plain net",
        lightning,
        model,
        "prefix",
        "state_dict",
        "net.",
        truth=truth,
    )
    yield Layout(
        "Lightning, plain weights into the module",
        truth,
        Holder(net=copy.deepcopy(model)),
        "prefix",
        added="net.",
        fix="model.net.load_state_dict(ckpt)",
        truth=under("net.", truth),
    )
    yield Layout(
        "MMEngine",
        {
            "meta": {"epoch": 3, "iter": 100, "cfg": "", "seed": 0},
            "state_dict": truth,
            "message_hub": {"log_scalars": {}},
            "optimizer": optimizer_of(saved),
            "param_schedulers": [{"last_step": 3}],
            "ema_state_dict": under("module.", fresh(ResNet, 3).state_dict()),
        },
        model,
        "fits",
        "state_dict",
        truth=truth,
    )
    yield Layout(
        "detectron2, saved from the wrapper",
        {
            "model": under("module.", truth),
            "optimizer": optimizer_of(saved),
            "scheduler": {"last_epoch": 3},
            "iteration": 100,
            "__author__": "somebody",
        },
        model,
        "wrapper",
        "model",
        "module.",
        wrappers=("module",),
        truth=truth,
    )
    yield Layout(
        "fairseq",
        {
            "args": None,
            "cfg": {"task": "translation"},
            "model": under("encoder.", truth),
            "criterion": None,
            "optimizer_history": [{"num_updates": 100}],
            "task_state": {},
            "extra_state": {
                "train_iterator": {"epoch": 3},
                "ema": under("encoder.", fresh(ResNet, 3).state_dict()),
            },
            "last_optimizer_state": optimizer_of(saved),
        },
        Holder(encoder=copy.deepcopy(model)),
        "fits",
        "model",
        said=('ckpt["extra_state"]["ema"] would fit too',),
        truth=under("encoder.", truth),
    )
    yolo = nn.Module()
    yolo.model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    half = copy.deepcopy(yolo).half()
    yield Layout(
        "YOLOv5",
        {
            "epoch": -1,
            "best_fitness": 0.5,
            "model": half,
            "ema": None,
            "updates": None,
            "optimizer": None,
            "opt": {},
        },
        yolo,
        "fits",
        "model",
        said=("from float16 to float32",),
        fix='model.load_state_dict(ckpt["model"].state_dict())',
        truth={key: value.float() for key, value in half.state_dict().items()},
    )
    other = fresh(ResNet, 4).state_dict()
    yield Layout(
        "BasicSR, the average beside the weights",
        {"params": truth, "params_ema": other},
        model,
        "fits",
        "params",
        said=('ckpt["params_ema"] would fit too',),
        truth=truth,
    )
    yield Layout(
        "BasicSR, the average alone",
        {"params_ema": other},
        model,
        "fits",
        "params_ema",
        truth=other,
    )
    yield Layout(
        "two networks of one kind, neither named as the one to take",
        {"generator_a": truth, "generator_b": other},
        model,
        "ambiguous",
        "generator_a",
        said=('ckpt["generator_a"], ckpt["generator_b"]',),
        fix="",
    )


def self_supervised() -> Iterator[Layout]:
    bare = fresh(lambda: ResNet(None), 1)
    truth = copy.deepcopy(bare.state_dict())
    model = fresh(lambda: ResNet(None), 2)
    full, slow = fresh(ResNet, 3).state_dict(), fresh(ResNet, 4).state_dict()
    queue = {"module.queue": torch.randn(4, 8), "module.queue_ptr": torch.zeros(1).long()}
    moco = {
        "epoch": 3,
        "arch": "resnet18",
        "state_dict": {
            **under("module.encoder_k.", slow),
            **under("module.encoder_q.", full),
            **queue,
        },
        "optimizer": {"state": {}, "param_groups": []},
    }
    yield Layout(
        "MoCo",
        moco,
        fresh(ResNet, 5),
        "subtree",
        "state_dict",
        "module.encoder_q.",
        wrappers=("module",),
        said=("`module.encoder_k.` would fit too: the slow copy", "module.queue"),
        fix='model.load_state_dict({key.removeprefix("module.encoder_q."): value for key, value '
        'in ckpt["state_dict"].items() if key.startswith("module.encoder_q.")})',
        truth=full,
    )
    yield Layout(
        "MoCo, the backbone with another head",
        moco,
        fresh(lambda: ResNet(9), 5),
        "shapes",
        "state_dict",
        "module.encoder_q.",
        wrappers=("module",),
        said=("fc.weight: 5 x 8 in the file, 9 x 8 in the model",),
        fix="",
    )
    vit = fresh(ViT, 1).state_dict()
    teacher = {**under("backbone.", vit), **under("head.", nn.Linear(4, 6).state_dict())}
    student = under(
        "module.",
        {
            **under("backbone.", fresh(ViT, 2).state_dict()),
            **under("head.", nn.Linear(4, 6).state_dict()),
        },
    )
    yield Layout(
        "DINO, into the backbone",
        {
            "student": student,
            "teacher": teacher,
            "optimizer": {"state": {}, "param_groups": []},
            "epoch": 3,
            "args": Namespace(),
            "dino_loss": {"center": torch.zeros(1, 6)},
            "fp16_scaler": None,
        },
        fresh(ViT, 3),
        "subtree",
        "teacher",
        "backbone.",
        said=('ckpt["student"] would fit too', "head.weight"),
        truth=vit,
    )
    yield Layout(
        "DINOv2, exported in chunks",
        {"teacher": under("backbone.", fresh(lambda: ViT(chunks=1), 1).state_dict())},
        fresh(ViT, 3),
        "renamed",
        "teacher",
        "backbone.",
        said=("blocks.0.* -> blocks.*",),
        truth=vit,
    )
    yield Layout(
        "DINOv2, several chunks",
        fresh(lambda: ViT(chunks=2), 1).state_dict(),
        fresh(ViT, 3),
        "renamed",
        said=("blocks.#.* -> blocks.*",),
        truth=vit,
    )
    yield Layout(
        "DINOv2, chunks in the model",
        vit,
        fresh(lambda: ViT(chunks=2), 3),
        "renamed",
        truth=fresh(lambda: ViT(chunks=2), 1).state_dict(),
    )
    simclr = {**truth, "fc.0.weight": torch.randn(8, 8), "fc.0.bias": torch.randn(8)}
    simclr |= {"fc.2.weight": torch.randn(6, 8), "fc.2.bias": torch.randn(6)}
    yield Layout(
        "SimCLR",
        {
            "epoch": 3,
            "arch": "resnet18",
            "state_dict": under("backbone.", simclr),
            "optimizer": {"state": {}, "param_groups": []},
        },
        fresh(ResNet, 5),
        "partial",
        "state_dict",
        "backbone.",
        said=("fc.weight, fc.bias", "fc.0.weight"),
        fix="",
    )
    yield Layout(
        "SimCLR, into the backbone without its head",
        {"state_dict": under("backbone.", truth)},
        model,
        "prefix",
        "state_dict",
        "backbone.",
        truth=truth,
    )
    online = {"net": copy.deepcopy(bare), "projector": nn.Linear(8, 4)}
    learner = Holder(online_encoder=Holder(**online), online_predictor=nn.Linear(4, 4))
    later = Holder(
        online_encoder=Holder(**online),
        target_encoder=copy.deepcopy(Holder(**online)),
        online_predictor=nn.Linear(4, 4),
    )
    yield Layout("BYOL, the inner net", truth, model, "fits", truth=truth)
    yield Layout(
        "BYOL, a full learner into a fresh one",
        later.state_dict(),
        learner,
        "extra",
        said=("target_encoder", "first forward"),
        fix="",
    )
    yield Layout(
        "BYOL, a full learner into the net",
        later.state_dict(),
        model,
        "subtree",
        prefix="online_encoder.net.",
        said=("`target_encoder.net.` would fit too",),
        truth=truth,
    )
    pretrained = {
        **vit,
        "mask_token": torch.randn(1, 1, 4),
        "decoder_embed.weight": torch.randn(4, 4),
    }
    yield Layout(
        "MAE, pre-trained",
        {"model": pretrained, "optimizer": {}, "epoch": 3, "scaler": {}, "args": Namespace()},
        fresh(lambda: ViT(head=5), 3),
        "partial",
        "model",
        said=("head.weight, head.bias", "mask_token"),
        fix="",
    )
    yield Layout(
        "MAE, the encoder alone, before fine-tuning",
        {"model": vit},
        fresh(lambda: ViT(head=5), 3),
        "partial",
        "model",
        said=("2 parameters: head.weight, head.bias",),
        fix="",
    )


def language() -> Iterator[Layout]:
    saved = fresh(GPT, 1)
    truth = copy.deepcopy(saved.state_dict())
    yield Layout(
        "nanoGPT",
        {
            "model": under("_orig_mod.", truth),
            "optimizer": optimizer_of(saved),
            "model_args": {"n_layer": 2},
            "iter_num": 100,
            "best_val_loss": torch.tensor(2.5),
            "config": {},
        },
        fresh(GPT, 2),
        "wrapper",
        "model",
        "_orig_mod.",
        wrappers=("_orig_mod",),
        truth=truth,
    )
    shortened = OrderedDict(truth)
    del shortened["lm_head.weight"]
    yield Layout(
        "Hugging Face, safetensors without one of a tied pair",
        shortened,
        fresh(GPT, 2),
        "tied",
        said=("lm_head.weight is the same tensor as transformer.wte.weight",),
        fix='model.load_state_dict({**ckpt, "lm_head.weight": ckpt["transformer.wte.weight"]})',
        truth=truth,
    )
    yield Layout(
        "the same under a prefix",
        {"model": under("module.", shortened)},
        fresh(GPT, 2),
        "wrapper",
        "model",
        "module.",
        wrappers=("module",),
        truth=truth,
    )
    yield Layout(
        "the same into a net whose head is its own",
        shortened,
        fresh(lambda: GPT(tied=False), 2),
        "partial",
        said=("lm_head.weight",),
        fix="",
    )
    old = fresh(lambda: Positions(saved=True), 1).state_dict()
    yield Layout(
        "Hugging Face, position ids that are no longer saved",
        old,
        fresh(lambda: Positions(saved=False), 2),
        "leftovers",
        said=("position_ids: a buffer that the model makes itself",),
        fix="model.load_state_dict({key: value for key, value in ckpt.items() "
        'if key != "position_ids"})',
        truth={key: value for key, value in old.items() if key != "position_ids"},
    )
    clip = fresh(lambda: Holder(visual=ViT(), transformer=Block()), 1).half()
    yield Layout(
        "CLIP, its flat dict",
        clip.state_dict(),
        fresh(lambda: Holder(visual=ViT(), transformer=Block()), 2),
        "fits",
        said=("from float16 to float32",),
        truth={key: value.float() for key, value in clip.state_dict().items()},
    )
    yield Layout(
        "CLIP, its picture encoder alone",
        clip.state_dict(),
        fresh(ViT, 2),
        "subtree",
        prefix="visual.",
        truth={k[7:]: v.float() for k, v in clip.state_dict().items() if k[:7] == "visual."},
    )
    whisper = fresh(lambda: Holder(encoder=ViT(), decoder=GPT()), 1)
    yield Layout(
        "Whisper",
        {"dims": {"n_mels": 80}, "model_state_dict": whisper.state_dict()},
        fresh(lambda: Holder(encoder=ViT(), decoder=GPT()), 2),
        "fits",
        "model_state_dict",
        fix='model.load_state_dict(ckpt["model_state_dict"])',
        truth=whisper.state_dict(),
    )
    lora: dict[str, torch.Tensor] = {}
    adapted = copy.deepcopy(saved)
    for index, block in enumerate(adapted.transformer["h"]):
        place = f"base_model.model.transformer.h.{index}.attn"
        lora[f"{place}.lora_A.weight"] = torch.randn(2, 4)
        lora[f"{place}.lora_B.weight"] = torch.randn(12, 2)
        layer = Holder(
            base_layer=block.attn,
            lora_A=Holder(default=nn.Linear(4, 2, bias=False)),
            lora_B=Holder(default=nn.Linear(2, 12, bias=False)),
        )
        block.attn = layer
    yield Layout(
        "PEFT, an adapter into the plain net",
        lora,
        fresh(GPT, 2),
        "adapter",
        said=("strict=False would take it and apply nothing", "PeftModel"),
        fix="",
    )
    peft = Holder(base_model=Holder(model=adapted))
    yield Layout(
        "PEFT, an adapter into the adapted net",
        lora,
        peft,
        "adapter",
        said=("the base weights are not in the file",),
        fix="",
    )
    merged = copy.deepcopy(peft).state_dict()
    yield Layout(
        "PEFT, base and adapter in one file into the plain net",
        merged,
        fresh(GPT, 2),
        "extra",
        prefix="base_model.model.",
        wrappers=("base_layer",),
        said=("merge_and_unload",),
        fix="",
    )


def wrapped() -> Iterator[Layout]:
    truth = copy.deepcopy(fresh(ResNet, 1).state_dict())
    model = fresh(ResNet, 2)
    average = torch.optim.swa_utils.AveragedModel
    yield Layout(
        "AveragedModel, into the plain net",
        average(fresh(ResNet, 1)).state_dict(),
        model,
        "wrapper",
        prefix="module.",
        wrappers=("module",),
        said=("n_averaged: the counter of AveragedModel",),
        truth=truth,
    )
    yield Layout(
        "plain weights into AveragedModel",
        truth,
        average(copy.deepcopy(model)),
        "buffers",
        added="module.",
        model_wrappers=("module",),
        said=("n_averaged", "model.module.load_state_dict(ckpt)"),
        fix="",
    )
    for start, chain in {
        "_orig_mod.module.": ("_orig_mod", "module"),
        "module._orig_mod.": ("module", "_orig_mod"),
        "module.module.": ("module", "module"),
        "_forward_module._orig_mod.module.": ("_forward_module", "_orig_mod", "module"),
    }.items():
        yield Layout(
            f"wrappers {start}",
            under(start, truth),
            model,
            "wrapper",
            prefix=start,
            wrappers=chain,
            truth=truth,
        )
    compiled = copy.deepcopy(model)
    compiled.layer1 = torch.compile(compiled.layer1)
    middle = OrderedDict(
        (key.replace("layer1.", "layer1._orig_mod."), value) for key, value in truth.items()
    )
    yield Layout(
        "torch.compile of one child, in the file",
        middle,
        model,
        "wrapper",
        wrappers=("_orig_mod",),
        said=("inside 4 of 14 names, such as layer1._orig_mod.0.weight",),
        truth=truth,
    )
    yield Layout(
        "torch.compile of one child, in the model",
        truth,
        compiled,
        "wrapper",
        model_wrappers=("_orig_mod",),
        said=("the model has `_orig_mod.`",),
        truth=middle,
    )
    yield Layout(
        "torch.compile of one child under DDP",
        {"model": under("module.", middle)},
        model,
        "wrapper",
        "model",
        prefix="module.",
        wrappers=("module", "_orig_mod"),
        truth=truth,
    )
    yield Layout(
        "activation checkpointing, an average keyed by named_parameters",
        OrderedDict(
            (key.replace("layer1.", "layer1._checkpoint_wrapped_module."), value)
            for key, value in truth.items()
        ),
        model,
        "wrapper",
        wrappers=("_checkpoint_wrapped_module",),
        truth=truth,
    )
    yield Layout(
        "compiled whole, into DDP",
        under("_orig_mod.", truth),
        nn.DataParallel(copy.deepcopy(model)),
        "wrapper",
        prefix="_orig_mod.",
        added="module.",
        wrappers=("_orig_mod",),
        model_wrappers=("module",),
        truth=under("module.", truth),
    )
    trap = fresh(lambda: trapped(), 1)
    traps = copy.deepcopy(trap.state_dict())
    yield Layout(
        "a net with a child called module, saved bare",
        traps,
        fresh(trapped, 2),
        "fits",
        truth=traps,
    )
    yield Layout(
        "a net with a child called module, saved from DDP",
        under("module.", traps),
        fresh(trapped, 2),
        "wrapper",
        prefix="module.",
        wrappers=("module",),
        fix='model.load_state_dict({key.removeprefix("module."): value '
        "for key, value in ckpt.items()})",
        truth=traps,
    )
    yield Layout(
        "a net with a child called module, into DDP",
        traps,
        nn.DataParallel(fresh(trapped, 2)),
        "wrapper",
        added="module.",
        model_wrappers=("module",),
        fix="model.module.load_state_dict(ckpt)",
        truth=under("module.", traps),
    )


def trapped() -> nn.Module:
    return Holder(module=nn.Linear(3, 2), base_module=nn.Linear(3, 2), head=nn.Linear(2, 3))


def sharded() -> Iterator[Layout]:
    truth = copy.deepcopy(fresh(ResNet, 1).state_dict())
    model = fresh(ResNet, 2)
    yield Layout(
        "DeepSpeed, mp_rank_00_model_states.pt",
        {
            "module": truth,
            "buffer_names": ["bn1.running_mean"],
            "optimizer": None,
            "param_shapes": [OrderedDict((key, value.shape) for key, value in truth.items())],
            "lr_scheduler": {"last_epoch": 3},
            "dp_world_size": 2,
            "ds_config": {},
            "ds_version": "0.16",
        },
        model,
        "fits",
        "module",
        fix='model.load_state_dict(ckpt["module"])',
        truth=truth,
    )
    yield Layout(
        "DeepSpeed, stage 3",
        {"module": {key: torch.empty(0) for key in truth}, "optimizer": None},
        model,
        "shapes",
        "module",
        said=("ZeRO stage 3", "zero_to_fp32.py"),
        fix="",
    )
    flat = "student.backbone._fsdp_wrapped_module.blocks.0._fsdp_wrapped_module._flat_param"
    yield Layout(
        "DINOv2, one rank's shards",
        {"model": {flat: torch.randn(64)}, "iteration": 100},
        fresh(ViT, 2),
        "nothing",
        "model",
        said=("_flat_param", "shard"),
        fix="",
    )
    yield Layout(
        "FSDP, full weights with its segments",
        OrderedDict(
            (
                "_fsdp_wrapped_module." + key.replace("layer1.", "layer1._fsdp_wrapped_module."),
                value,
            )
            for key, value in truth.items()
        ),
        model,
        "wrapper",
        prefix="_fsdp_wrapped_module.",
        wrappers=("_fsdp_wrapped_module", "_fsdp_wrapped_module"),
        truth=truth,
    )
