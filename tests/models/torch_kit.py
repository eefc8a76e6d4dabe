"""Random models of PyTorch, and the same weights in our networks."""

from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.numpy import load_file

from jaxaug.models.weights import hf_folder, keymap

LABELS = {0: "contradiction", 1: "neutral", 2: "entailment"}


def random_torch(name: str, **config: Any) -> Any:
    """Returns a transformers model by class name, always with the same weights."""
    torch.manual_seed(1)
    cls = getattr(transformers, name)
    model = cls(cls.config_class(**config)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # Norms and biases start as ones and zeros.
                parameter.add_(0.3 * torch.randn(parameter.shape))
    return model


def loaded(model: Any, folder: Path) -> tuple[Any, Any]:
    """Returns our network and its parameters, from a folder of transformers."""
    model.save_pretrained(folder)
    found = hf_folder.load(folder)
    return found.module, found.params


def unread_after_round_trip(folder: Path) -> set[str]:
    """Checks that weights and configuration return unchanged.

    Returns:
        Names of the tensors without a parameter.
    """
    found = hf_folder.load(folder)
    code = found.family.code
    assert code.Config.from_hf(code.to_hf(found.config)) == found.config
    back = keymap.tensors_from(found.params, code.key_map(found.config))
    stored = load_file(folder / "model.safetensors")
    for name, tensor in back.items():
        assert tensor.tobytes() == stored[name].tobytes(), name
    return set(stored) - set(back)
