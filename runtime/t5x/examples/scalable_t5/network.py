"""T5 for many layers, with one scanned layer and rematerialization.

It reuses the layers of `t5x.examples.t5.network`, with three differences. Every layer
has its own position bias. Attention kernels keep heads and head_dim as two axes. With
`scan_layers` the parameters of a stack are in one array for all layers.
"""

import flax.struct
from flax import linen as nn
from flax.linen.partitioning import ScanIn, scan_with_axes

from t5x.examples.t5 import network as t5
from t5x.examples.t5 import parts
from t5x.examples.t5.parts import rematerialised


@flax.struct.dataclass
class T5Config(t5.T5Config):
    """Options of the scalable T5, in addition to `t5x.examples.t5.network.T5Config`.

    Attributes:
        scan_layers: whether a stack is one scanned layer.
        param_scan_axis: layer axis of the parameters.
    """

    scan_layers: bool = True
    param_scan_axis: int = 1


class EncoderLayer(t5.EncoderBlock):
    """Encoder layer with its own position bias, as the body of a scan."""

    config: T5Config

    @nn.compact
    def __call__(self, x, mask):
        bias = parts.self_biases(self.config, x.shape[1], bidirectional=True)
        return self.block(parts.constrain(x), mask, bias), None


class DecoderLayer(t5.DecoderBlock):
    """Decoder layer with its own position bias, as the body of a scan."""

    config: T5Config

    @nn.compact
    def __call__(self, x, encoded, mask, cross_mask, prefill_lengths=None):
        bias = parts.decoder_biases(self.config, x.shape[1], self.decode)
        x = parts.constrain(x)
        return self.block(x, encoded, mask, cross_mask, bias, prefill_lengths), None


def _run_stack(
    stack: nn.Module, make_layer, layer_cls: type[nn.Module], length: int, x, *constants
):
    """Runs `length` layers; with scan_layers their scope has the name of the stack."""
    config = stack.config
    layer_cls = rematerialised(layer_cls, config, prevent_cse=not config.scan_layers)
    if not config.scan_layers:
        for i in range(length):
            x, _ = make_layer(layer_cls, name=f"layers_{i}")(x, *constants)
        return x
    axis = config.param_scan_axis
    initialising = stack.is_mutable_collection("params")
    scanned = scan_with_axes(
        layer_cls,
        variable_axes={
            "params": axis if initialising else ScanIn(axis),
            "cache": 0,
            "cross_cache": 0,
            "beam_cache": 0,
        },
        split_rngs={"params": True, "dropout": True},
        in_axes=(nn.broadcast,) * len(constants),
        length=length,
        axis_name="layers",
    )
    x, _ = make_layer(scanned, name=stack.name)(x, *constants)
    return x


class Encoder(t5.Encoder):
    """Encoder over scanned layers."""

    config: T5Config

    def run_layers(self, x, mask, deterministic):
        def make_layer(layer_cls, name):
            return layer_cls(
                self.config, deterministic, joined_kernels=False, name=name
            )

        return _run_stack(
            self, make_layer, EncoderLayer, self.config.num_encoder_layers, x, mask
        )


class Decoder(t5.Decoder):
    """Decoder over scanned layers."""

    config: T5Config

    def run_layers(
        self, x, encoded, mask, cross_mask, deterministic, decode, prefill_lengths=None
    ):
        def make_layer(layer_cls, name):
            return layer_cls(
                self.config, deterministic, decode, joined_kernels=False, name=name
            )

        return _run_stack(
            self,
            make_layer,
            DecoderLayer,
            self.config.num_decoder_layers,
            x,
            encoded,
            mask,
            cross_mask,
            prefill_lengths,
        )


class Transformer(t5.Transformer):
    """The encoder-decoder model over scanned layers."""

    config: T5Config

    encoder_cls = Encoder
    decoder_cls = Decoder
    ignores_padding = True

    @property
    def scan_layers(self) -> bool:
        """True if parameters and caches have a layer axis."""
        return self.config.scan_layers
