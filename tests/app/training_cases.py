# SPDX-License-Identifier: Apache-2.0
"""Trainings that tests/app/digests tries: each network, way of training, layout of ranks and encoding of gradients that the program knows.

The program's own table of keys (`distdl config --reference`) names networks, ways, encodings and all else that has a list of names, so a new
one is tried unasked. What is here are the sizes, the keys that make something of each happen within a few steps, and which combinations of
the many are taken.
"""
import dataclasses
import itertools
import re

MOST_RANKS = 4
SHARDS = 4  # tensor shards and chunks of a sequence, wherever several ranks share them
# Results depend on the order in which gradients arrive, so that two runs of one program differ.
LEFT_OUT = {"parallel.server_mode": {"bounded", "asynchronous"}}
COMMON = {
    "run.relaunches": 0, "run.preflight": "off", "run.slow_node_share": 0, "checkpoint.every": 0, "checkpoint.mode": "sync",
    "train.steps": 5, "train.evaluate_every": 0, "kernels.threads": 1, "data.train": "images.h5", "data.holdout": 24,
    "parallel.microbatches": 4, "parallel.microbatch_size": 2,
}
# Keys that have an effect with some encodings only.
WARM_UP = "parallel.compression_warmup_steps"
ENCODINGS = {"topk": {"parallel.compression_fraction": 0.05, WARM_UP: 2}, "onebit": {WARM_UP: 2}, "powersgd": {"parallel.compression_rank": 2, WARM_UP: 2}}
BLOCKS = {"model.layers": 2, "model.width": 16, "model.heads": 4, "optim.name": "adamw", "optim.learning_rate": 0.01}
# With AdamW and without a limit of the norm, as in vit, codecs keep second moments. A network without a row here has the keys of COMMON.
NETWORKS = {
    "gpt": {**BLOCKS, "data.train": "text.h5", "data.holdout": 33, "model.context": 16, "model.dropout": 0.1, "optim.clip_norm": 0.5},
    "vit": {**BLOCKS, "model.patch": 6, "model.dropout": 0.1, "model.label_smoothing": 0.1, "optim.weight_decay": 0.1},
    "lenet": {"data.crop": 2, "data.mirror": True, "model.hidden": [32], "optim.warmup_steps": 2},
    "mlp": {"model.hidden": [32, 16], "model.batch_norm": True, "optim.name": "lamb", "optim.learning_rate": 0.01},
    **{name: {"train.steps": 3} for name in ("resnet18", "resnet34", "resnet50")},
}
RESNETS = {"resnet18", "resnet34", "resnet50"}
OWN_KEYS = {"model.stem": RESNETS, "model.variant": {"gpt"}, "model.gelu": {"gpt"}}  # of some networks only
LARGE = {"resnet34", "resnet50"}  # networks of which three cases must do
FEW = {"mlp", "resnet18"}  # networks with few combinations: a resnet18 takes ten times as long as another one, and mlp has nothing that lenet lacks
SERVER, LOCAL = "parameter_server", "local_sgd"
# Keys by which rounds end within the steps. Servers know no norm of all gradients.
WAYS = {LOCAL: {"parallel.groups": 2, "parallel.local_steps": 2}, SERVER: {"parallel.server_steps": 2, "optim.clip_norm": 0}}
# Time decides which of several workers computes and encodes a part of a step, and with a codec the result depends on that.
ONE_WORKER = {"cluster.worker.tasks": 1}
# Values of single keys, beside those that the program lists.
NUMBERS = {
    "gpt": [{"model.kv_heads": 2}, {"model.tied_head": False}, {"parallel.context_chunks": SHARDS}, {"parallel.tensor_shards": SHARDS}],
    "vit": [{"parallel.tensor_shards": SHARDS}, {"optim.ema_decay": 0.5}],
    "lenet": [{"optim.nesterov": True}, {"model.batch_norm": True}, {"train.audit_every": 2}, {"train.balance": False},
              {"train.evaluate_every_steps": 2}, {"train.keep_best": True}],
    "resnet18": [{"parallel.tensor_shards": SHARDS}, {"model.stem": "imagenet"}],
}
ITEM = re.compile(r'"([^"]+)"(?: \((?:[^()]|\([^()]*\))*\))?')
LIST = re.compile(rf"{ITEM.pattern}(?:(?:, or|,| or) {ITEM.pattern})+")


@dataclasses.dataclass(frozen=True)
class Layout:
    """The number of ranks of each kind."""
    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1

    @property
    def ranks(self):
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def name(self):
        return "-".join(f"{kind}{number}" for kind, number in vars(self).items() if number > 1) or "one"

    @property
    def keys(self):
        return {**({"parallel.tensor_ranks": self.tensor, "parallel.tensor_shards": SHARDS} if self.tensor > 1 else {}),
                **({"parallel.context_ranks": self.context, "parallel.context_chunks": SHARDS} if self.context > 1 else {}),
                **({"parallel.pipeline_ranks": self.pipeline} if self.pipeline > 1 else {})}


LAYOUTS = [layout for layout in itertools.starmap(Layout, itertools.product(range(1, MOST_RANKS + 1), repeat=4)) if layout.ranks <= MOST_RANKS]
ONE, TWO, THREE = Layout(), Layout(data=2), Layout(data=3)
SPLIT = [Layout(tensor=2), Layout(pipeline=2)]


@dataclasses.dataclass
class Case:
    name: str
    starts: list  # of one run: pairs of a number of ranks and {key: value}

    @property
    def keys(self):
        return {key for _, keys in self.starts for key in keys}


class Keys:
    """The keys of job files that a program knows, with their defaults and the names that it lists for them."""

    def __init__(self, reference):
        rows = re.findall(r"^\| `([^`]+)` \| `(.*?)` \| (.*?) \|(?: .* \|)?$", reference, re.M)  # older ones have three columns
        self.defaults = {key: default.strip('"') for key, default, _ in rows}
        self.names = {key: self.listed(default, meaning) for key, default, meaning in rows}

    @staticmethod
    def listed(default, meaning):
        """The meaning of a key has the names of its values as `"name" (meaning), "name" or "name" (meaning)`: its longest such list."""
        if not default.startswith('"') or default == '""':
            return []
        longest = max((match[0] for match in LIST.finditer(meaning)), key=len, default="")
        return [match[1] for match in ITEM.finditer(longest)]

    def intersection(self, other):
        both = Keys("")
        both.defaults = {key: default for key, default in self.defaults.items() if key in other.defaults}
        both.names = {key: [name for name in self.names[key] if name in other.names[key]] for key in both.defaults}
        return both

    def lacks(self, other):
        """Keys and names of the other that are not here, as words."""
        for key in other.defaults:
            if key not in self.defaults:
                yield key
            else:
                yield from (f'{key} = "{name}"' for name in other.names[key] if name not in self.names[key])

    def tried(self, key):
        return [name for name in self.names.get(key, []) if name not in LEFT_OUT.get(key, ())]


class Table:
    def __init__(self, keys, backend):
        self.keys, self.backend = keys, backend
        self.cases = {}
        self.ways, self.codecs = keys.tried("parallel.strategy"), keys.tried("parallel.compression")
        self.way, self.codec = keys.defaults["parallel.strategy"], keys.defaults["parallel.compression"]

    def start(self, network, way, layout, codec, more):
        of_codec = {key: 1 if key == WARM_UP and network in RESNETS else value for key, value in ENCODINGS.get(codec, {}).items()}
        keys = {**COMMON, "kernels.backend": self.backend, **NETWORKS.get(network, {}), **WAYS.get(way, {}), **layout.keys, **of_codec,
                **(ONE_WORKER if way == SERVER and codec != self.codec else {}),
                "model.name": network, "parallel.strategy": way, "parallel.compression": codec, **more}
        return layout.ranks, {key: value for key, value in keys.items() if key in self.keys.defaults}

    def add(self, network, way=None, layout=TWO, codec=None, more=(), then=None):
        """`then` is the layout on which a second start goes on, after three steps."""
        way, codec, more = way or self.way, codec or self.codec, dict(more)
        if not more.keys() <= self.keys.defaults.keys():
            return
        words = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in more.items()]
        name = "/".join([network, way, layout.name, codec, *words, *([f"then-{then.name}"] if then else [])])
        starts = [self.start(network, way, layout, codec, more)]
        if then:
            starts = [self.start(network, way, layout, codec, {**more, "train.end_at_step": 3}), self.start(network, way, then, codec, more)]
        self.cases.setdefault(name, Case(name, starts))

    def names_of(self, key, network, **how):
        for name in self.keys.tried(key):
            self.add(network, more={key: name}, **how)

    def products(self, network):
        few = [ONE, TWO, *SPLIT]
        for way in self.ways:
            for layout in few if network in FEW else LAYOUTS:
                self.add(network, way, layout)
            for codec in self.codecs:
                self.add(network, way, TWO, codec)
        for layout in LAYOUTS:
            self.add(network, layout=layout)
        for codec in self.codecs:
            for layout in [] if network in FEW else LAYOUTS:
                self.add(network, layout=layout, codec=codec)

    def variants(self, network):
        self.names_of("parallel.schedule", network, layout=Layout(pipeline=2))
        for layout in (TWO, Layout(pipeline=2)):
            self.names_of("parallel.recompute", network, layout=layout)
        self.names_of("kernels.precision", network)
        self.add(network, more={"parallel.bucket_mib": 1e-6})
        self.add(network, more={"run.devices_per_rank": 2})
        for more in NUMBERS.get(network, []):
            self.add(network, more=more)
        self.names_of("parallel.outer", network, way=LOCAL)
        self.names_of("parallel.server_pulls", network, way=SERVER)
        if network not in FEW:
            self.more_variants(network)

    def more_variants(self, network):
        self.add(network, more={"kernels.backend": "reference"})
        for key in ("optim.name", "optim.schedule", "checkpoint.mode", "checkpoint.compression"):
            self.names_of(key, network)
        for way in self.ways:
            self.names_of("optim.name", network, way=way, layout=THREE)
            self.add(network, way, more={"parallel.bucket_mib": 1e-6})
            self.add(network, way, more={"run.devices_per_rank": 2})
            self.add(network, way, TWO, then=THREE)
            self.add(network, way, Layout(pipeline=2), then=TWO)
        for layout in SPLIT:
            self.names_of("optim.name", network, layout=layout)
            self.names_of("kernels.precision", network, layout=layout)
            self.names_of("parallel.schedule", network, layout=Layout(data=2, pipeline=2))
        for codec in self.codecs:
            self.add(network, codec=codec, layout=TWO, then=THREE)
            self.add(network, LOCAL, THREE, codec)
            self.names_of("parallel.outer", network, way=LOCAL, codec=codec)
        for key in ("cluster.ps.placement", "parallel.server_mode"):
            self.names_of(key, network, way=SERVER, layout=THREE)
        self.add(network, SERVER, THREE, more={"parallel.server_partners": True})
        for key in self.keys.names:
            if key.startswith("model.") and key != "model.name" and network in OWN_KEYS.get(key, {network}):
                self.names_of(key, network)


def table(keys, backend):
    """All cases of a program with these keys."""
    cases = Table(keys, backend)
    networks = keys.tried("model.name")
    for network in sorted(networks, key=lambda name: (name in LARGE, name in FEW, networks.index(name))):
        if network in LARGE:
            for layout in (TWO, *SPLIT):
                cases.add(network, layout=layout)
        else:
            cases.products(network)
            cases.variants(network)
    return list(cases.cases.values())
