"""Recipes: every setting of a training run, validated, as YAML; read without torch.

Thresholds and bin widths are for a scale of 1 to 5 and are stretched to the panel's scale.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import yaml
from pydantic import Field, ValidationError, model_validator

from uol.errors import CallError
from uol.order.config import LEGACY, ModelConfig, ScoringConfig, Settings, drop_legacy
from uol.ratings.rated_images import Indices
from uol.storage.files import why_unread
from uol.storage.settings_text import read_yaml
from uol.storage.validation import first_problem


class Augmentation(Settings):
    """How training images vary; amounts are drawn for each image of each epoch.

    Amounts are the largest change to either side; `grey`, `mask`, `erase` and `mix` are probabilities.
    """

    group = "augmentation"

    flip: bool = Field(True, description="mirror half of the images")
    random_crop: bool = Field(False, description="crop at a random place instead of the centre")
    rotation: float = Field(0.0, ge=0, le=180, description="degrees")
    zoom: float = Field(0.0, ge=0, lt=1, description="of the size")
    shift: float = Field(0.0, ge=0, lt=1, description="of half the width")
    bend: float = Field(
        0.0,
        ge=0,
        le=0.15,
        description="about, of half the width: points move smoothly, which makes another face",
    )
    contrast: float = Field(0.0, ge=0, le=1)
    brightness: float = Field(0.0, ge=0, le=1, description="added to values from 0 to 1")
    saturation: tuple[float, float] = Field((1.0, 1.0), description="lowest and highest factor")
    grey: float = Field(0.0, ge=0, le=1)
    channel_gain: float = Field(0.0, ge=0, lt=1, description="of each colour by itself")
    mask: float = Field(0.0, ge=0, le=1, description="blank what lies outside the ellipse of an aligned face")
    erase: float = Field(0.0, ge=0, le=1, description="blank a box at a random place")
    mix: float = Field(
        0.0,
        ge=0,
        le=1,
        description="blend images and their ratings with another of the batch, which has at most half of the weight",
    )

    @model_validator(mode="after")
    def _saturation_is_a_range(self) -> Self:
        low, high = self.saturation
        if not 0 <= low <= high:
            raise ValueError(f"augmentation.saturation: a range from 0 up is required, not {low:g} to {high:g}")
        return self

    @property
    def warps(self) -> bool:
        """Whether images are resampled, not only cropped and mirrored."""
        return bool(self.rotation or self.zoom or self.shift or self.bend)

    @property
    def recolours(self) -> bool:
        """Whether colours change."""
        amounts = (self.contrast, self.brightness, self.grey, self.channel_gain)
        return any(amounts) or self.saturation != (1.0, 1.0)


class Recipe(Settings):
    """The settings of one training run; the defaults are the paper's; where it states none, the description says so."""

    method: str = Field("uol", description="one of uol.methods.names()")
    model: ModelConfig = ModelConfig()
    init: str | None = Field(None, description="backbone weights: a safetensors file, 'timm' to download, or none")
    second_backbone: str | None = Field(
        None,
        description="a second timm model, for methods that are published with two: cnn-er, co-attention",
    )

    threshold: float = Field(0.2, gt=0, description="θ: scores this near are similar")
    pairs: Literal["balanced", "all"] = Field(
        "balanced", description="Algorithm 2's choice, or all of a batch, the similar ones weighted to a third"
    )
    pairs_per_image: int = Field(
        8, ge=1, le=10_000, description="N: most pairs an image of a batch is in; open in the paper"
    )
    order_target: Literal["hard", "soft"] = Field(
        "hard", description="one-hot, or probabilities from the standard errors of the two mean scores"
    )
    samples: int = Field(
        8, ge=1, le=10_000, description="T in training; open in the paper, and the figure is stable in it"
    )
    sampling: Literal["monte-carlo", "closed-form"] = Field(
        "monte-carlo", description="T draws per image, or the exact mean behind the comparator's first layer, undrawn"
    )
    margin: float = Field(1.0, ge=0, description="τ of the ordinal hinge; open in the paper")
    alpha: float = Field(1e-4, ge=0, description="α: weight of the ordinal hinge")
    beta: float = Field(1e-3, ge=0, description="β: weight of the dispersion divergence")
    score_weight: float = Field(0.0, ge=0, description="weight of a helper in training that regresses the score")
    histogram_weight: float = Field(
        0.0, ge=0, description="weight of predicting the histogram of ratings, by a helper or by model.levels"
    )
    landmarks: bool = Field(
        False, description="for co-attention: the parts of each face are where the data set's landmarks put them"
    )
    teachers: tuple[str, ...] = Field(
        (), description="folders of trained models to learn from; {split} in a path is the split's name"
    )
    start: Literal["backbone", "teacher"] = Field(
        "backbone", description="initial weights: those of init in the backbone alone, or all of the first teacher"
    )
    comparator_start: Literal["differences", "random"] = Field(
        "differences", description="before training the comparator looks at differences of images alone, or at random"
    )
    teacher_weight: float = Field(
        0.5,
        ge=0,
        le=1,
        description="their share in the targets of pairs, and of histograms of panels that they know (model.levels)",
    )
    panel_passes: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (), description="for several panels: passes over the images of each in an epoch; empty: one"
    )

    optimizer: Literal["adam", "adamw", "sgd"] = Field("adam", description="sgd has a momentum of 0.9")
    learning_rate: float = Field(1e-4, gt=0)
    schedule: Literal["cosine", "linear", "steps"] = Field(
        "cosine", description="how the learning rate falls after warming up: steps are those of milestones"
    )
    final_learning_rate: float = Field(1e-6, ge=0, description="where a cosine or a linear fall ends")
    milestones: tuple[tuple[int, float], ...] = Field(
        (), description="for steps: pairs of an epoch, counted from 0, and the factor of learning_rate from there on"
    )
    warmup_steps: int = Field(0, ge=0, le=10**9)
    weight_decay: float = Field(0.0, ge=0)
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="learning rate of each of the backbone's layers, as a share of the next layer's",
    )
    batch_size: int = Field(32, ge=2, le=65_536)
    epochs: int = Field(100, ge=1, le=10**6)
    frozen: int = Field(0, ge=0, description="the backbone's first convolutions, this many, keep their weights")
    augmentation: Augmentation = Augmentation()

    held_out: float = Field(0.1, ge=0, lt=0.9, description="share of the training images kept to calibrate intervals")
    held_out_seed: int | None = Field(
        None, ge=0, lt=2**32, description="seed of the held-out images, to share them between networks; empty: seed"
    )
    validate_every: int = Field(5, ge=0, description="epochs between losses on the held-out images; 0: never")
    bin_width: float = Field(0.1, ge=1e-6, description="of the score bins that references are chosen from")
    references_per_bin: int = Field(10, ge=1, le=10**6)
    scoring: ScoringConfig = ScoringConfig()

    seed: int = Field(0, ge=0, lt=2**32)
    deterministic: bool = Field(False, description="only algorithms that repeat bit for bit, at some cost in speed")
    precision: Literal["auto", "32-true", "bf16-mixed"] = Field(
        "auto", description="auto: products in bfloat16 on GPUs, float32 elsewhere"
    )
    engine: Literal["auto", "eager", "graph", "compiled"] = Field(
        "auto",
        description="how steps are taken: one operation at a time; recorded in a CUDA graph and replayed; or compiled "
        "and then recorded. auto: eager on processors, on GPUs compiled where training is long enough to repay it",
    )

    @model_validator(mode="after")
    def _milestones_are_in_order(self) -> Self:
        epochs = [epoch for epoch, _ in self.milestones]
        if epochs and self.schedule != "steps":
            raise ValueError(f"milestones: for schedule steps, not {self.schedule}")
        if any(one >= two for one, two in zip([0, *epochs], epochs, strict=False)):
            raise ValueError("milestones: epochs must start from 1, each later than the one before")
        if any(factor <= 0 for _, factor in self.milestones):
            raise ValueError("milestones: factors must be above 0")
        return self

    @model_validator(mode="after")
    def _levels_are_learnt(self) -> Self:
        if self.model.levels and not self.histogram_weight:
            raise ValueError("model.levels requires histogram_weight above 0, the weight of learning histograms")
        if not self.model.levels and self.scoring.histogram_share != ScoringConfig().histogram_share:
            raise ValueError("scoring.histogram_share is for models that predict histograms; set model.levels")
        return self

    def for_split(self, split: str) -> Recipe:
        """The recipe with the teachers of a split."""
        return self.model_copy(update={"teachers": tuple(path.replace("{split}", split) for path in self.teachers)})

    def with_changes(self, changes: Mapping[str, Any]) -> Recipe:
        """The recipe with settings replaced; dotted names reach inside: {"model.backbone": "resnet18"}."""
        values = self.model_dump()
        for name, value in changes.items():
            *path, last = name.split(".")
            place = values
            for part in path:
                if part in place and not isinstance(place[part], dict):
                    raise CallError(f"{name}: {part} contains no settings")
                if part not in place:
                    raise CallError(_unknown(part, place))
                place = place[part]
            if last not in place and name not in LEGACY:
                raise CallError(_unknown(last, place))
            place[last] = value
        return check_recipe(values, "recipe")


def load_recipe(name: str | os.PathLike[str], changes: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe that ships, by name, or a YAML file, by path; then `changes` on top.

    A file may begin with `base:`, the name of a recipe that ships or a path relative to the file, and then contains
    only the settings that differ from that recipe.

    >>> load_recipe("strong", {"epochs": 5}).epochs
    5
    """
    recipe = check_recipe(_read(str(name)), str(name))
    return recipe.with_changes(changes) if changes else recipe


def parse_changes(words: Iterable[str], init: str | None = None) -> dict[str, Any]:
    """Changed settings, as --set name=value writes them, and those of --init.

    >>> parse_changes(["epochs=5", "model.backbone=resnet18"])
    {'epochs': 5, 'model.backbone': 'resnet18'}
    """
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise CallError(f"--set {word}: write it as name=value")
        values[name.strip()] = read_yaml(value, f"--set {word[:100]}")
    return values | ({} if init is None else {"init": init})


def check_recipe(values: Mapping[str, Any], source: str) -> Recipe:
    """Validate settings; the first mistake is reported in one line."""
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden":
            *path, last = first["loc"]
            groups = {kind.group: kind for kind in (ModelConfig, ScoringConfig, Augmentation)}
            known = groups[str(path[0])] if path else Recipe
            raise CallError(f"{source}: {_unknown(str(last), known.model_fields)}") from error
        raise CallError(f"{source}: {first_problem(error)}") from error


def stored_recipe(settings: Mapping[str, Any], source: str) -> Recipe:
    """The recipe of a finished run, by the settings that its result keeps, without the deleted ones among them."""
    return check_recipe(drop_legacy(settings, neutral_only=False), source)


def with_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Stored settings as they would be written now: with the defaults of newer ones, without neutral deleted ones."""

    def filled(defaults: Any, stored: Any) -> Any:
        if not (isinstance(defaults, dict) and isinstance(stored, Mapping)):
            return stored
        return {**stored, **{key: filled(value, stored.get(key, value)) for key, value in defaults.items()}}

    found: dict[str, Any] = filled(Recipe().model_dump(mode="json"), drop_legacy(settings, neutral_only=True))
    return found


def shipped() -> list[str]:
    """Names of the recipes that ship."""
    folder = resources.files("uol.training") / "recipes"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _read(name: str, derived: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings in a recipe, on top of those of its base; `derived` are the recipes that are based on it."""
    if name in derived:
        raise CallError(f"{derived[0]}: base: recipes may not be based on each other ({' → '.join((*derived, name))})")
    values = deepcopy(_shipped_settings(name)) if name in shipped() else read_yaml(_find(name), name) or {}
    if not isinstance(values, dict):
        raise CallError(f"{name}: a recipe is a list of settings, one `name: value` per line")
    if "base" not in values:
        return values
    base = values.pop("base")
    if not isinstance(base, str):
        raise CallError(f"{name}: base: the name of a recipe or a path is required, not {base!r}")
    path = base if base in shipped() else os.path.normpath(Path(name).parent / base)
    inherited = _read(path, (*derived, name))
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(inherited.get(key), dict)
        inherited[key] = {**inherited[key], **value} if both else value
    return inherited


@cache
def _shipped_settings(name: str) -> Any:
    """What the file of a recipe that ships says: to be copied, not changed."""
    text = (resources.files("uol.training") / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")
    return read_yaml(text, name)


def _find(name: str) -> str:
    path = Path(name)
    if not path.is_file():
        raise CallError(f"{name}: neither a recipe file nor one that ships ({', '.join(shipped())})")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CallError(f"{path}: cannot be read ({why_unread(error)})") from error


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"unknown setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else f" (known: {', '.join(known)})")


def held_out_rows(images: int, recipe: Recipe) -> tuple[Indices, Indices]:
    """Which of a number of images train, and which calibrate, each sorted."""
    kept = held_out_count(images, recipe)
    seed = recipe.seed if recipe.held_out_seed is None else recipe.held_out_seed
    shuffled: Indices = np.random.default_rng([seed, 0xCA11]).permutation(images)
    return np.sort(shuffled[kept:]), np.sort(shuffled[:kept])


def held_out_count(images: int, recipe: Recipe) -> int:
    """How many training images calibrate: two at least, unless the share is 0."""
    return max(round(images * recipe.held_out), 2) if recipe.held_out else 0
