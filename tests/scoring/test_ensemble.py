"""Several models asked as one: the mean computed the slow way, one calibration, other sizes, other panels, on disk."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quick import forget_digests, quick_recipe
from uol.errors import CallError, UolError
from uol.order.calibration import calibrate
from uol.order.config import ModelConfig, ScoringConfig, common_view
from uol.order.views import shown_to
from uol.runs.run import run
from uol.scoring.base import EnsembleScore
from uol.scoring.config import PanelConfig
from uol.scoring.ensemble import EnsembleScorer
from uol.scoring.folder import load_model, load_scorer
from uol.scoring.released import fingerprint, open_model
from uol.scoring.scorer import Scorer
from uol.training.packed import PackedImages
from uol.training.teachers import Teacher, Teachers

pytestmark = pytest.mark.filterwarnings("ignore:intervals. far too narrow")  # some members are not calibrated
FIGURES = ("value", "low", "high", "dispersion", "standard_error")


def figures(scores):
    return np.array([[getattr(score, name) for name in FIGURES] for score in scores])


@pytest.fixture(scope="module")
def packed(drawn):
    return PackedImages.pack(drawn, quick_recipe().model)


@pytest.fixture(scope="module")
def members(packed, trained):
    """Three networks of different seeds, which held out the same twelve images."""
    others = [run(packed, quick_recipe(seed=seed, held_out_seed=0), accelerator="cpu").scorer for seed in (1, 2)]
    return [trained.scorer, *others]


@pytest.fixture(scope="module")
def ensemble(members, packed, drawn):
    made = EnsembleScorer(members)
    made.calibrate(drawn, made.embed_pixels(packed.centre))
    return made


@pytest.fixture(scope="module")
def folder(ensemble, tmp_path_factory):
    place = tmp_path_factory.mktemp("ensembles") / "model"
    ensemble.save_pretrained(place)
    return place


def shared(members, packed, drawn, seeds=(0, 0, 0)):
    """The same networks with one choice of references, or several."""
    return [
        Scorer.build(member.model, drawn, member.embed_pixels(packed.centre), member.scoring, per_bin=1, seed=seed)
        for member, seed in zip(members, seeds, strict=True)
    ]


def test_equal_members_are_as_good_as_one(trained, packed, drawn):
    alone = Scorer.build(trained.model, drawn, trained.embed(packed.centre))
    alone.calibrate(drawn, trained.embed(packed.centre))
    together = EnsembleScorer([alone, alone, alone])
    together.calibrate(drawn, together.embed_pixels(packed.centre))
    found = together.score(drawn.images[:20])
    assert np.allclose(figures(found), figures(alone.score(drawn.images[:20])), atol=1e-6)
    assert np.allclose([score.disagreement for score in found], 0, atol=1e-9)
    pair = drawn.images[:2]
    assert np.allclose(together.compare(*pair), alone.compare(*pair), atol=1e-7)
    assert [place.index for place in together.rank(drawn.images[:9])] == [
        place.index for place in alone.rank(drawn.images[:9])
    ]


@pytest.mark.slow
def test_the_mean_of_scores_computed_one_image_at_a_time(ensemble, members, packed, drawn):
    """Against every member asked alone, and degrees standardised and fitted by hand."""
    logs, raw, errors = [], [], []
    for member in members:
        estimates = [member.raw_estimates(member.embed_pixels(packed.centre[i : i + 1])) for i in range(80)]
        raw.append([estimate.value[0] for estimate in estimates])
        errors.append([estimate.standard_error[0] for estimate in estimates])
        degrees = [member.degrees(member.embed_pixels(packed.centre[i : i + 1]))[0] for i in range(80)]
        own = np.log(degrees)
        logs.append((own - own.mean()) / own.std())
    value, error = np.mean(raw, axis=0), np.mean(errors, axis=0)
    calibration = calibrate(drawn.scores, value, error)
    slope, intercept = np.polyfit(np.mean(logs, axis=0), 0.5 * np.log(drawn.variances), 1)
    for i, score in enumerate(ensemble.score_exactly(packed.centre)):
        assert score.value == pytest.approx(
            np.clip(calibration.intercept + calibration.slope * value[i], 1, 5), abs=1e-4
        )
        assert score.standard_error == pytest.approx(error[i], rel=1e-3)
        assert score.dispersion == pytest.approx(np.exp(intercept + slope * np.mean(logs, axis=0)[i]), rel=1e-3)
        spread = np.std([own[i] for own in raw], ddof=1)
        assert score.disagreement == pytest.approx(calibration.slope * spread, abs=1e-4)
        half = calibration.half_width(error[i])
        assert score.low == pytest.approx(np.clip(score.value - half, 1, 5), abs=1e-3)


def test_comparisons_are_the_mean_of_the_members(ensemble, members, drawn):
    found = ensemble.compare(drawn.images[0], drawn.images[5])
    slow = np.mean([member.compare(drawn.images[0], drawn.images[5]) for member in members], axis=0)
    assert np.allclose(found, slow)
    assert sum(found) == pytest.approx(1)


def test_all_ways_of_asking_agree(ensemble, packed, drawn):
    scores = ensemble.score(drawn.images[:40], batch_size=7)
    assert all(isinstance(score, EnsembleScore) for score in scores)
    assert np.allclose(figures(scores), figures(ensemble.score_pixels(packed.centre[:40].numpy())), atol=1e-5)
    assert np.allclose(figures(scores), figures(ensemble.submit(list(packed.centre[:40].numpy()))()), atol=1e-5)
    assert np.allclose(figures(scores), figures(ensemble.score_exactly(packed.centre[:40])), atol=1e-5)
    assert np.allclose(figures(scores), figures(ensemble.score_embedded(ensemble.embed(drawn.images[:40]))), atol=1e-5)


def test_few_known_variances_leave_dispersion_to_the_members(members, packed, drawn):
    unknown = replace(drawn, variances=np.full(80, np.nan))
    made = EnsembleScorer(members)
    made.calibrate(unknown, made.embed_pixels(packed.centre))
    assert made.calibration.images == 80
    slow = np.mean([np.log([s.dispersion for s in member.score_exactly(packed.centre[:9])]) for member in members], 0)
    assert np.allclose([score.dispersion for score in made.score_exactly(packed.centre[:9])], np.exp(slow), rtol=1e-4)


@pytest.mark.slow
def test_points_have_one_dispersion(packed, drawn):
    recipe = quick_recipe(method="order-learning", epochs=1)
    own = [run(packed, recipe.model_copy(update={"seed": seed}), accelerator="cpu").scorer for seed in (0, 1)]
    made = EnsembleScorer(own)
    made.calibrate(drawn, made.embed_pixels(packed.centre))
    typical = np.exp(0.5 * np.log(drawn.variances).mean())
    assert np.allclose([score.dispersion for score in made.score(drawn.images[:5])], typical)


@pytest.mark.slow
def test_a_member_of_another_size_sees_the_images_in_its_own(members, packed, drawn):
    recipe = quick_recipe(epochs=1, held_out_seed=0)
    large = recipe.with_changes({"model.resize": 64, "model.crop": 64})
    big = run(PackedImages.pack(drawn, large.model), large, accelerator="cpu").scorer
    made = EnsembleScorer([members[0], big])
    assert made.config == big.config
    pixels = torch.from_numpy(made.framed(drawn.images[:6]))
    assert pixels.shape[-1] == 64
    small = shown_to(pixels, members[0].config, big.config)
    assert small.dtype == torch.uint8
    blocks = pixels.float().unfold(2, 2, 2).unfold(3, 2, 2).mean((-1, -2))  # half the size: near the mean of four
    assert (small.float() - blocks).abs().mean() < 4
    alone = members[0].raw_estimates(members[0].embed_pixels(small)).value
    other = big.raw_estimates(big.embed_pixels(pixels)).value
    assert np.allclose([s.value for s in made.score(drawn.images[:6])], (alone + other) / 2, atol=1e-5)


def test_a_member_used_to_the_middle_of_images_sees_that(members, drawn):
    narrow = copy.deepcopy(members[1])
    narrow.model.config = members[1].config.model_copy(update={"resize": 40})
    for made in (EnsembleScorer([members[0], narrow]), EnsembleScorer([narrow, members[0]])):
        assert (made.config.resize, made.config.crop) == (40, 40)
        pixels = torch.from_numpy(made.framed(drawn.images[:6]))
        middle = narrow.raw_estimates(narrow.embed_pixels(pixels[..., 4:36, 4:36])).value
        smaller = torch.nn.functional.interpolate(pixels.float(), (32, 32), mode="bilinear", antialias=True).round()
        whole = members[0].raw_estimates(members[0].embed_pixels(smaller.byte())).value
        assert np.allclose([s.value for s in made.score(drawn.images[:6])], (middle + whole) / 2, atol=1e-5)


def test_what_cannot_be_averaged_is_refused(members, packed, drawn):
    first = members[0]
    with pytest.raises(CallError, match="at least 2 members"):
        EnsembleScorer([first])
    elsewhere = Scorer(first.model, first.references, PanelConfig(name="b", low=1, high=10), first.bradley_terry)
    with pytest.raises(CallError, match="one panel and scale, not .*, 1 to 5 and b, 1 to 10"):
        EnsembleScorer([first, elsewhere])
    other = copy.deepcopy(first)
    other.model.config = first.config.model_copy(update={"framing": "face"})
    with pytest.raises(CallError, match="framed alike, not whole, .* and face, 32 of 32 pixels"):
        EnsembleScorer([first, other])
    with pytest.raises(CallError, match="references are the same images"):
        EnsembleScorer(shared(members, packed, drawn, seeds=(0, 1, 2))).leave_one_out()


@pytest.mark.slow
def test_another_panel(members, packed, drawn, drawn_b, tmp_path):
    made = EnsembleScorer(shared(members, packed, drawn))
    anchored = made.anchor(drawn_b)
    assert (anchored.panel.low, anchored.panel.high) == (1, 10)
    found = anchored.leave_one_out()
    assert np.corrcoef([score.value for score in found], drawn_b.scores)[0, 1] > 0.3
    covered = [score.low <= truth <= score.high for score, truth in zip(found, drawn_b.scores, strict=True)]
    assert np.mean(covered) > 0.85
    # each image against all others, by every member
    alone = [member.anchor(drawn_b) for member in members]
    raw = [own.raw_estimates(own.references.gaussians, leave_one_out=True).value for own in alone]
    calibration = anchored.calibration
    slow = np.clip(calibration.intercept + calibration.slope * np.mean(raw, axis=0), 1, 10)
    assert np.allclose([score.value for score in found], slow, atol=1e-4)
    anchored.save_pretrained(tmp_path / "b")
    again = Scorer.from_pretrained(tmp_path / "b")
    assert np.allclose(figures(again.score(drawn.images[:5])), figures(anchored.score(drawn.images[:5])), atol=1e-6)
    with pytest.raises(CallError, match="at least 10"):
        made.anchor(drawn_b.subset(np.arange(9)))


def test_round_trip(ensemble, folder, drawn, tmp_path):
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", "manifest.json", "members"]
    assert sorted(path.name for path in (folder / "members").iterdir()) == ["1", "2", "3"]
    again = Scorer.from_pretrained(folder)
    assert isinstance(again, EnsembleScorer)
    assert again.score(drawn.images[:9]) == ensemble.score(drawn.images[:9])
    assert "measures nothing about a person" in (folder / "README.md").read_text()
    assert load_scorer(folder / "members" / "2").score(drawn.images[:2]) == again.members[1].score(drawn.images[:2])
    again.save_pretrained(tmp_path / "half", half=True)
    again.save_pretrained(tmp_path / "half", half=True)  # an older model is replaced
    near = Scorer.from_pretrained(tmp_path / "half").score(drawn.images[:9])
    assert np.allclose(figures(near), figures(ensemble.score(drawn.images[:9])), atol=0.1)
    assert fingerprint(tmp_path / "half") != fingerprint(folder)
    (tmp_path / "half" / "mine.txt").write_text("mine")
    with pytest.raises(CallError, match="other files"):
        again.save_pretrained(tmp_path / "half")


@pytest.mark.filterwarnings("ignore:.*without manifest.json")
def test_folders_of_older_versions_are_read(folder, ensemble, drawn, tmp_path):
    copy = forget_digests(shutil.copytree(folder, tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_text())
    assert not {"combine", "bradley_terry"} & set(config)
    (copy / "config.json").write_text(json.dumps(config | {"combine": "scores", "bradley_terry": None}))
    assert Scorer.from_pretrained(copy).score(drawn.images[:3]) == ensemble.score(drawn.images[:3])
    ensemble.save_pretrained(copy)  # replaced as a model of today is


def test_a_change_in_any_member_is_a_change_of_the_model(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    before = fingerprint(copy)
    shutil.copyfile(copy / "members/1/references.safetensors", copy / "members/3/references.safetensors")
    assert fingerprint(copy) != before


def test_members_are_what_the_ensemble_was_made_of(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(copy / "members/2")
    shutil.copytree(copy / "members/1", copy / "members/2")
    with pytest.raises(UolError, match=r"members/2/manifest.json: damaged"):
        Scorer.from_pretrained(copy)
    shutil.move(copy / "members/2", tmp_path / "2")
    (copy / "members/2").symlink_to(tmp_path / "2")
    with pytest.raises(UolError, match="a link that leaves the ensemble's folder"):
        Scorer.from_pretrained(copy)


@pytest.mark.filterwarnings("ignore:.*without manifest.json")
def test_damage_is_named(folder, tmp_path):
    copy = forget_digests(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "members/2/model.safetensors").unlink()
    with pytest.raises(UolError, match=r"members/2: not a whole model folder: model.safetensors"):
        Scorer.from_pretrained(copy)
    shutil.rmtree(copy / "members/2")
    with pytest.raises(UolError, match="names 2, which is neither in members nor a model that ships"):
        Scorer.from_pretrained(copy)
    config = json.loads((copy / "config.json").read_text())
    for change, message in (
        ({"members": config["members"][:1]}, "damaged"),
        ({"members": [{**config["members"][0], "name": "../1"}] * 2}, "damaged"),
        ({"combine": "outcomes"}, "ensemble.combine: this setting was removed"),
        ({"combined": "scores"}, "damaged or of another version .*combined"),
        ({"format": 99}, "newer uol"),
    ):
        (copy / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(UolError, match=message) as caught:
            Scorer.from_pretrained(copy)
        assert "\n" not in str(caught.value)
    pair = {"members": [config["members"][0], config["members"][2]], "panel": {"name": "b", "low": 1, "high": 10}}
    (copy / "config.json").write_text(json.dumps(config | pair))
    with pytest.raises(UolError, match="another panel"):
        Scorer.from_pretrained(copy)


def test_what_needs_one_network_says_so(folder, tmp_path):
    with pytest.raises(CallError, match="requires a model of one"):
        load_scorer(folder)
    with pytest.raises(CallError, match="--runtime torch"):
        open_model(folder, "onnx")
    from uol.scoring.onnx_export import export_onnx

    with pytest.raises(CallError, match="an ensemble cannot be exported"):
        export_onnx(Scorer.from_pretrained(folder), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_its_members_teach(folder, members):
    pixels = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    rows = torch.arange(2), torch.arange(1, 3)
    slow = Teachers([Teacher.of(member) for member in members], members[0].config).judge(pixels, *rows).order
    told = Teachers.load([str(folder)], quick_recipe().model).judge(pixels, *rows).order
    assert torch.allclose(told, slow, atol=1e-6)
    assert len(load_model(folder).members) == 3


def test_scoring_settings_are_the_members_own(members, drawn, packed):
    hard = [Scorer(m.model, m.references, m.panel, m.bradley_terry, m.calibration, ScoringConfig(outcomes="hard"))
            for m in members]  # fmt: skip
    made = EnsembleScorer(hard)
    slow = np.mean([member.raw_estimates(member.embed_pixels(packed.centre[:9])).value for member in hard], axis=0)
    assert np.allclose([score.value for score in made.score(drawn.images[:9])], slow, atol=1e-4)


@pytest.mark.slow
def test_from_the_shell(uol, folder, image_files, drawn, tmp_path):
    files = sorted(image_files.glob("*.png"))
    code, out, err = uol("score", image_files, "--model", folder, "--json")
    assert code == 0, err
    rows = json.loads(out)
    assert set(rows[0]) == {"image", "face", "value", "low", "high", "dispersion", "error"}
    expected = [score.value for score in Scorer.from_pretrained(folder).score(files)]
    assert [row["value"] for row in rows] == pytest.approx(expected, abs=1e-5)
    assert uol("compare", files[0], files[1], "--model", folder)[0] == 0
    assert uol("rank", image_files, "--model", folder, "--html", tmp_path / "page.html")[0] == 0
    table = tmp_path / "ratings.csv"
    table.write_text("image,mean\n" + "".join(f"{path.name},{k % 5 + 1}\n" for k, path in enumerate(files)))
    code, out, err = uol("anchor", image_files, table, "--model", folder, "--out", tmp_path / "ours", "--json")
    assert code == 0, err
    assert uol("score", files[0], "--model", tmp_path / "ours")[0] == 0
    code, out, err = uol("evaluate", folder, "--data", "own", "--root", image_files, "--table", table, "--json")
    assert code == 0, err
    assert json.loads(out)["images"] == 10
    code, _, err = uol("score", files[0], "--model", folder, "--explain", tmp_path / "why.png")
    assert (code, err.count("\n")) == (2, 1)
    assert "not of an ensemble" in err
    code, _, err = uol("export", folder, "--out", tmp_path / "graphs")
    assert (code, err.count("\n")) == (2, 1)
    assert "cannot be exported" in err


@pytest.fixture(scope="module")
def telling(drawn):
    """Two models that tell the panel's histograms too."""
    recipe = quick_recipe(epochs=1, histogram_weight=1.0).with_changes({"model.levels": 5})
    packed = PackedImages.pack(drawn, recipe.model)
    seeds = [recipe.model_copy(update={"seed": seed, "held_out_seed": 0}) for seed in (0, 1)]
    return [run(packed, own, accelerator="cpu").scorer for own in seeds]


def test_histograms_have_their_share_in_the_mean(telling, drawn):
    made = EnsembleScorer(telling)
    alone = [member.raw_estimates(member.embed(drawn.images[:5])).value for member in telling]
    compared = [member.solve_scores(member.outcomes(member.embed(drawn.images[:5]))).value for member in telling]
    assert not np.allclose(alone, compared, atol=0.01)
    assert np.allclose([s.value for s in made.score(drawn.images[:5])], np.mean(alone, 0), atol=1e-5)


def test_what_networks_tell_by_heart_is_left_out_with_each_reference(telling, packed, drawn):
    own = shared(telling, packed, drawn, seeds=(0, 0))
    made = EnsembleScorer(own)
    alone = [member.raw_estimates(member.references.gaussians, leave_one_out=True).value for member in own]
    assert np.allclose([s.value for s in made.leave_one_out()], np.mean(alone, 0), atol=1e-5)


@given(st.lists(st.tuples(st.integers(8, 400), st.integers(1, 400)), min_size=1, max_size=4))
def test_a_common_view_holds_what_each_model_is_shown(sizes):
    models = [ModelConfig(resize=resize, crop=min(crop, resize)) for resize, crop in sizes]
    view = common_view(models)
    assert view.resize == max(model.resize for model in models)
    assert all(model.sees_within(view) for model in models)
    smaller = view.model_copy(update={"crop": view.crop - 1})
    assert not all(model.sees_within(smaller) for model in models)
