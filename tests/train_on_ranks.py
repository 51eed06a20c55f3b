"""Train a small network on several ranks of this machine: python train_on_ranks.py RANKS CHECKPOINT EPOCHS SETTINGS.

After EPOCHS epochs the training is stopped, as if it were killed between two of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from quick import quick_recipe
from uol import methods
from uol.datasets.synthetic import load_synthetic
from uol.training import ranks
from uol.training.loop import train
from uol.training.packed import PackedImages


class StoppedError(Exception):
    pass


def main(devices, checkpoint, epochs, settings):
    recipe = quick_recipe(**settings)
    ranks.launch(devices, 1, "cpu")
    drawn = load_synthetic(80, 20, size=32)
    with ranks.first_rank_first():
        data = PackedImages.pack(drawn, recipe.model)
    torch.manual_seed(recipe.seed)
    method = methods.find(recipe.method)(recipe, drawn.scale, 5)
    held_out, training = data.subset(np.arange(16)), data.subset(np.arange(16, 80))

    def report(epoch):
        if ranks.is_first():
            print(json.dumps([epoch.epoch, epoch.losses, epoch.held_out]), flush=True)
        if epoch.epoch == epochs and epochs < recipe.epochs:
            raise StoppedError

    try:
        train(method, training, recipe, checkpoint, report, "cpu", held_out)
    except StoppedError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]))
