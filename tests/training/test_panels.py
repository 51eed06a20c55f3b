"""Several panels that train one network: stretched to one scale, never compared, each with its own references."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch.nn.modules.batchnorm import _BatchNorm

from quick import quick_recipe
from uol import methods
from uol.errors import CallError, UolError
from uol.methods.uol import Uol
from uol.order.gaussians import Gaussians, dispersion_degree, sample
from uol.order.norms import normalised_by_batch, with_statistics
from uol.order.order import order_of
from uol.ratings import metrics
from uol.ratings.rated_images import RatedImages, Split
from uol.ratings.scale import Scale
from uol.runs.run import hold_out, run
from uol.training.batches import Feed, fixed_batches, plan_epoch
from uol.training.packed import PackedImages
from uol.training.panels import join, without_copies

CPU = torch.device("cpu")
ALL_LOSSES = {"order_target": "soft", "score_weight": 0.7, "histogram_weight": 0.3, "alpha": 0.01, "beta": 0.1}


def packed(*panels: RatedImages) -> list[PackedImages]:
    return [PackedImages.pack(panel, quick_recipe().model) for panel in panels]


def random_panel(name: str, scores: list[float], scale: Scale) -> RatedImages:
    images = np.zeros((len(scores), 4, 4, 3), np.uint8)
    return RatedImages(name, images, [str(i) for i in range(len(scores))], np.array(scores), scale)


@pytest.fixture(scope="module")
def joined(drawn, drawn_b):
    """Sixty faces of the first panel and forty of the second."""
    a, b = packed(drawn, drawn_b)
    return join([a.subset(np.arange(60)), b.subset(np.arange(40, 80))])


def test_scores_and_spreads_are_stretched_to_the_first_scale(joined, drawn, drawn_b):
    assert len(joined) == 100
    assert joined.panel.tolist() == [0] * 60 + [1] * 40
    assert np.array_equal(joined.rated.scores[:60], drawn.scores[:60])
    assert np.allclose(joined.rated.scores[60:], 1 + (drawn_b.scores[40:] - 1) * 4 / 9)
    assert np.allclose(joined.rated.variances[60:], drawn_b.variances[40:] * (4 / 9) ** 2, equal_nan=True)
    # Thresholds as on 1 to 5, stretched to the panel's own scale: the same order as of the stretched scores.
    one, other = drawn_b.scores[40:, None], drawn_b.scores[None, 40:]
    stretched = joined.rated.scores[60:]
    own = order_of(one, other, 0.2 * drawn_b.scale.unit)
    assert np.array_equal(own, order_of(stretched[:, None], stretched[None], 0.2 * drawn.scale.unit))
    assert [part.rated.scale for part in joined.parts] == [drawn.scale, drawn_b.scale]
    assert torch.equal(joined.pixels[60:], joined.parts[1].pixels)


def test_histograms_keep_their_own_levels(joined, drawn, drawn_b):
    assert joined.rated.histograms.shape == (100, 10)
    assert np.array_equal(joined.rated.histograms[:60, :5], drawn.histograms[:60])
    assert not joined.rated.histograms[:60, 5:].any()
    assert np.array_equal(joined.rated.histograms[60:], drawn_b.histograms[40:])
    a, b = packed(drawn, replace(drawn_b, histograms=None, levels=None))
    batches = fixed_batches(join([a, b]), quick_recipe(), CPU)
    known = {int(batch.panel[0]): bool(torch.isfinite(batch.histogram).all()) for batch in batches}
    assert known == {0: True, 1: False}
    neither = [replace(panel, rated=replace(panel.rated, histograms=None)) for panel in (a, b)]
    assert join(neither).rated.histograms is None


@given(
    sizes=st.lists(st.integers(4, 30), min_size=2, max_size=4),
    passes=st.lists(st.sampled_from([0.5, 1.0, 1.7, 3.0]), min_size=4, max_size=4),
    pairs=st.sampled_from(["balanced", "all"]),
    seed=st.integers(0, 2**16),
    epoch=st.integers(0, 5),
)
def test_images_are_only_compared_within_a_panel(sizes, passes, pairs, seed, epoch):
    rng = np.random.default_rng(seed)
    panel = np.repeat(np.arange(len(sizes)), sizes)
    rated = random_panel("all", rng.uniform(1, 5, len(panel)).tolist(), Scale(1, 5))
    recipe = quick_recipe(batch_size=4, pairs=pairs, seed=seed, panel_passes=passes[: len(sizes)])
    plan = plan_epoch(rated, recipe, epoch, panel)
    assert (panel[plan.images] == panel[plan.images[:, :1]]).all()
    for places in (plan.first, plan.second, plan.triplets.anchor, plan.triplets.near, plan.triplets.far):
        chosen = np.take_along_axis(plan.images, places, 1)
        assert (panel[chosen] == panel[plan.images[:, :1]]).all()
    for number, size in enumerate(sizes):
        own = plan.images[panel[plan.images[:, 0]] == number]
        assert len(own) == max(round((size // 4) * passes[number]), 1)
        assert all(len(set(batch)) == 4 for batch in own.tolist())
        if passes[number] <= 1:
            assert len(np.unique(own)) == own.size
    again = plan_epoch(rated, recipe, epoch, panel)
    assert np.array_equal(plan.images, again.images)
    assert np.array_equal(plan.second, again.second)


def test_panels_take_turns_in_random_order(joined):
    plans = [plan_epoch(joined.rated, quick_recipe(batch_size=4), epoch, joined.panel) for epoch in range(2)]
    turns = [joined.panel[plan.images[:, 0]].tolist() for plan in plans]
    assert sorted(turns[0]) == sorted(turns[1]) == [0] * 15 + [1] * 10
    assert turns[0] != turns[1]


def test_losses_equal_a_slow_reading_in_each_panels_own_units(joined):
    """Pair by pair and image by image, from what each panel said on its own scale."""
    recipe = quick_recipe(**ALL_LOSSES, augmentation={"flip": False})
    torch.manual_seed(3)
    method = Uol(recipe, joined.rated.scale, 10, panels=2).eval()
    feed = Feed(joined, recipe, CPU)
    plan = plan_epoch(joined.rated, recipe, 0, joined.panel)
    feed.load(plan)
    seen = set()
    for rows in plan.images:
        batch = feed.batch()
        feed.position += 1
        number = int(joined.panel[rows[0]])
        seen.add(number)
        part, own = joined.parts[number].rated, rows - (0, 60)[number]
        torch.manual_seed(7)
        with torch.no_grad():
            found = method(batch)
            torch.manual_seed(7)
            slow = slow_losses(method, batch, part.subset(own), number)
        for name, value in slow.items():
            assert float(found[name]) == pytest.approx(float(value), rel=2e-4), name
    assert seen == {0, 1}


def slow_losses(method: Uol, batch, rated: RatedImages, number: int) -> dict[str, torch.Tensor]:
    recipe, unit = method.recipe, rated.scale.unit
    features = method.model.features(batch.images)
    gaussians = method.model.gaussians(features)
    points = sample(Gaussians(*(values.float() for values in gaussians)), recipe.samples)
    orders = []
    for i, j, weight in zip(batch.first.tolist(), batch.second.tolist(), batch.pair_weight.tolist(), strict=True):
        if weight:
            logits = method.model.comparator.pairs(points, torch.tensor([i]), torch.tensor([j])).mean(0)[0]
            error = np.sqrt(sum(rated.variances[k] / rated.counts[k] for k in (i, j))) / unit
            difference = (rated.scores[i] - rated.scores[j]) / unit
            normal = torch.distributions.Normal(0.0, 1.0)
            above = normal.cdf(torch.tensor((difference - recipe.threshold) / error))
            below = normal.cdf(torch.tensor((-difference - recipe.threshold) / error))
            target = torch.stack([below, 1 - below - above, above]).float()
            orders.append(-(target * logits.log_softmax(-1)).sum())
    truth = torch.from_numpy(rated.variances / rated.variances.sum())
    degree = dispersion_degree(gaussians.log_variance)
    divergence = (truth * (truth.log() - (degree / degree.sum()).log())).sum()
    score = method.score_head(features)[:, number]
    told = torch.from_numpy(method.scale.low / method.scale.unit + (rated.scores - rated.scale.low) / unit)
    logits = method.histogram_head(features)[:, 10 * number : 10 * number + 10]
    share = torch.zeros(len(rated), 10)
    share[:, : rated.histograms.shape[1]] = torch.from_numpy(rated.histograms / rated.counts[:, None])
    return {
        "order": torch.stack(orders).mean(),
        "dispersion": divergence,
        "score": (score - told).square().mean(),
        "histogram": -(share * F.log_softmax(logits, -1)).sum(-1).mean(),
    }


def test_each_panel_has_units_of_its_own_in_the_helpers(joined):
    method = Uol(quick_recipe(**ALL_LOSSES), joined.rated.scale, 10, panels=2)
    batch = next(b for b in fixed_batches(joined, quick_recipe(), CPU) if int(b.panel[0]) == 1)
    method(batch)["total"].backward()
    assert not method.score_head.weight.grad[0].any()
    assert method.score_head.weight.grad[1].any()
    assert not method.histogram_head.weight.grad[:10].any()
    assert method.histogram_head.weight.grad[10:].any()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uol", "order-learning"])
def test_each_panel_is_answered_with_its_own_references(drawn, drawn_b, name):
    rows = np.arange(20, 80)
    parts = [panel.subset(rows) for panel in packed(drawn, drawn_b)]
    recipe = quick_recipe(method=name, epochs=2, **ALL_LOSSES)
    method = run(join(parts), recipe, accelerator="cpu")
    assert [scorer.panel.name for scorer in method.scorers] == ["synthetic-a", "synthetic-b"]
    for scorer, part in zip(method.scorers, parts, strict=True):
        training, held_out = hold_out(part, recipe)
        assert np.isin(scorer.references.scores, training.rated.scores).all()
        assert (scorer.panel.low, scorer.panel.high) == tuple(part.rated.scale)
        assert scorer.calibration.images == len(held_out)
        obvious = with_statistics(method.model, training.centre).state_dict()  # norms as its batches were normalised
        assert all(torch.equal(value, obvious[name]) for name, value in scorer.model.state_dict().items())
    learnt = [dict(scorer.model.named_parameters()) for scorer in method.scorers]
    assert all(torch.equal(value, learnt[1][name]) for name, value in learnt[0].items())
    shown = parts[0].centre[:5]
    told = [score.value for score in method.scorer.score_pixels(shown)]
    assert method.predict(shown).value == pytest.approx(told, abs=1e-4)


@pytest.mark.slow
def test_panels_share_a_network_without_norms_over_batches(drawn, drawn_b):
    model = {"backbone": "test_vit", "resize": 32, "crop": 32, "dimensions": 8, "hidden": 8}
    method = run(join(packed(drawn, drawn_b)), quick_recipe(model=model, epochs=1), accelerator="cpu")
    assert method.scorers[0].model is method.scorers[1].model is method.model


@pytest.mark.slow
def test_a_panel_of_one_has_the_statistics_that_training_kept(drawn):
    (part,) = packed(drawn)
    method = run(part, quick_recipe(epochs=1), accelerator="cpu")
    assert method.scorer.model is method.model


def bright_and_dark(name: str, scale: Scale, bend: float, seed: int) -> RatedImages:
    """Grey noise of many brightnesses, which a panel likes the brighter the better, by a standard of its own."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(0, 1, 110)
    images = np.clip(255 * (0.1 + 0.8 * level[:, None, None, None]) + rng.normal(0, 20, (110, 32, 32, 3)), 0, 255)
    scores = scale.low + (scale.high - scale.low) * (0.1 + 0.8 * level**bend)
    return replace(random_panel(name, scores.tolist(), scale), images=images.astype(np.uint8))


@pytest.mark.slow
def test_a_joint_model_is_as_good_as_separate_ones():
    """On what a tiny network learns in moments; the second panel is severe, on another scale, and has fewer images."""
    recipe = quick_recipe(epochs=8, score_weight=0.5, pairs="all", validate_every=0)
    kind, severe = bright_and_dark("kind", Scale(1, 5), 0.5, 0), bright_and_dark("severe", Scale(1, 10), 3.0, 1)
    panels = packed(kind, severe)
    rows, test = [np.arange(70), np.arange(40)], np.arange(70, 110)
    both = run(join([panel.subset(own) for panel, own in zip(panels, rows, strict=True)]), recipe, accelerator="cpu")
    for scorer, panel, own in zip(both.scorers, panels, rows, strict=True):
        alone = run(panel.subset(own), recipe, accelerator="cpu")
        shown, truth = panel.subset(test).centre, panel.rated.scores[test]
        joint = [score.value for score in scorer.score_pixels(shown)]
        assert metrics.pearson(truth, joint) > 0.9
        assert metrics.pearson(truth, joint) > metrics.pearson(truth, alone.predict(shown).value) - 0.05
        assert metrics.mae(truth, joint) < 0.12 * (panel.rated.scale.high - panel.rated.scale.low)


@pytest.mark.slow
def test_each_panel_is_answered_and_watched_with_its_own_statistics():
    kind, severe = bright_and_dark("kind", Scale(1, 5), 0.5, 0), bright_and_dark("severe", Scale(1, 10), 3.0, 1)
    severe = replace(severe, images=severe.images // 4)
    panels = packed(kind, severe)
    recipe = quick_recipe(epochs=4, validate_every=1, held_out=0.2, sampling="closed-form")
    reports = []
    method = run(join(panels), recipe, report=reports.append, accelerator="cpu")
    first, second = (next(m for m in scorer.model.modules() if isinstance(m, _BatchNorm)) for scorer in method.scorers)
    # the first norm's mean follows the brightness of what it is shown
    assert (first.running_mean - second.running_mean).abs().max() > 0.1
    watched = fixed_batches(hold_out(join(panels), recipe)[1], recipe, CPU)
    with torch.no_grad(), normalised_by_batch(method.eval()):
        obvious = torch.stack([method(batch)["total"] for batch in watched]).mean()
    assert reports[-1].held_out == pytest.approx(float(obvious), rel=1e-4)
    for scorer, panel in zip(method.scorers, panels, strict=True):
        kept = hold_out(panel, recipe)[0]
        assert torch.equal(
            next(m for m in scorer.model.modules() if isinstance(m, _BatchNorm)).running_mean,
            next(
                m for m in with_statistics(method.model, kept.centre).modules() if isinstance(m, _BatchNorm)
            ).running_mean,
        )


@pytest.mark.slow
def test_a_resumed_training_is_the_same_and_notices_another_second_panel(joined, drawn_b, tmp_path):
    recipe = quick_recipe(panel_passes=(1, 2), **ALL_LOSSES)
    run(joined, recipe, tmp_path / "whole", accelerator="cpu")

    def stop(epoch):
        if epoch.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(joined, recipe, tmp_path / "stopped", stop, accelerator="cpu")
    scores = drawn_b.scores.copy()
    scores[41] += 0.1
    (changed,) = packed(replace(drawn_b, scores=scores))
    other = join([joined.parts[0], changed.subset(np.arange(40, 80))])
    with pytest.raises(CallError, match="run on other images"):
        run(other, recipe, tmp_path / "stopped", accelerator="cpu")
    run(joined, recipe, tmp_path / "stopped", accelerator="cpu")
    one, two = (load_file(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "stopped"))
    assert all(one[key].equal(two[key]) for key in one)


def test_copies_of_test_images_of_any_panel_do_not_train(drawn, drawn_b):
    a, b = packed(drawn, drawn_b)  # the same faces
    train = [np.arange(20, 80), np.arange(0, 70)]
    test = [np.arange(20), np.arange(70, 80)]
    pixels = a.pixels.clone()
    pixels[30] = pixels[3]  # within a panel
    found = without_copies([(replace(a, pixels=pixels), Split(train[0], test[0])), (b, Split(train[1], test[1]))])
    assert found[0].tolist() == [i for i in range(20, 70) if i != 30]
    assert found[1].tolist() == list(range(20, 70))
    alone = without_copies([(a, Split(train[0], test[0]))])
    assert alone[0].tolist() == train[0].tolist()


def test_what_cannot_be_joined_is_refused_in_one_line(drawn, drawn_b):
    a, b = packed(drawn, drawn_b)
    with pytest.raises(CallError, match="different names: synthetic-a, synthetic-a"):
        join([a, a])
    with pytest.raises(UolError, match="synthetic-b: 12 training images do not fill a batch.* lower batch_size"):
        run(join([a, b.subset(np.arange(15))]), quick_recipe(), accelerator="cpu")
    with pytest.raises(CallError, match="panel_passes: one number for each of 2 panels"):
        run(join([a, b]), quick_recipe(panel_passes=(1, 1, 1)), accelerator="cpu")
    with pytest.raises(CallError, match="panel_passes: one number for each of 1 panels"):
        run(a, quick_recipe(panel_passes=(1, 1)), accelerator="cpu")
    nobody = replace(b, rated=replace(b.rated, scores=np.full(80, np.nan)))
    with pytest.raises(UolError, match="synthetic-b: nobody rated"):
        run(join([a, nobody]), quick_recipe(), accelerator="cpu")
    assert join([a]) is a


@pytest.mark.parametrize("name", [name for name in methods.names() if not methods.find(name).takes_panels])
def test_other_methods_are_trained_on_one_panel(drawn, drawn_b, name):
    with pytest.raises(CallError, match=f"method {name} is trained on one panel; several can train .*uol"):
        run(join(packed(drawn, drawn_b)), quick_recipe(method=name), accelerator="cpu")
