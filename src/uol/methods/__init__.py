"""Methods on one interface: UOL and what it is compared with. Adding one is one file and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from uol.errors import CallError

if TYPE_CHECKING:
    from uol.training.method import Method

_METHODS = {
    "regression": ("uol.methods.regression", "Regression"),
    "ldl": ("uol.methods.ldl", "Ldl"),
    "uncertain-regression": ("uol.methods.uncertain_regression", "UncertainRegression"),
    "crnet": ("uol.methods.crnet", "CrNet"),
    "comboloss": ("uol.methods.comboloss", "ComboLoss"),
    "r3cnn": ("uol.methods.r3cnn", "R3Cnn"),
    "aanet": ("uol.methods.aanet", "AaNet"),
    "cnn-er": ("uol.methods.cnn_er", "CnnEr"),
    "co-attention": ("uol.methods.co_attention", "CoAttention"),
    "order-learning": ("uol.methods.order_learning", "OrderLearning"),
    "uol": ("uol.methods.uol", "Uol"),
}


def names() -> list[str]:
    """The names of all methods."""
    return list(_METHODS)


def find(name: str) -> type[Method]:
    """The class of a method."""
    if name not in _METHODS:
        raise CallError(f"no method called {name!r}; there are {', '.join(_METHODS)}")
    module, attribute = _METHODS[name]
    found: type[Method] = getattr(import_module(module), attribute)
    return found
