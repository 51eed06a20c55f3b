"""Teachers: what they say of a batch, that a pupil follows them, and that none smuggles test images into training."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from quick import forget_digests, quick_recipe
from uol.errors import CallError
from uol.methods.uol import Uol
from uol.order.gaussians import Gaussians
from uol.order.model import OrderModel
from uol.ratings.rated_images import Split
from uol.ratings.scale import Scale
from uol.runs import run as training_run
from uol.runs.run import hold_out, run, taught
from uol.runs.train_and_test import Origin, train_and_test
from uol.scoring.config import PanelConfig
from uol.scoring.digests import write_digests
from uol.scoring.released import find_model, find_teacher, names, weights_digest
from uol.scoring.scorer import Scorer
from uol.training.batches import fixed_batches
from uol.training.checkpoint import read_progress
from uol.training.packed import PackedImages
from uol.training.teachers import Teacher, Teachers

MODEL = quick_recipe().model


@pytest.fixture
def folder(trained, tmp_path):
    trained.scorer.save_pretrained(tmp_path / "teacher")
    return str(tmp_path / "teacher")


def test_judgements_are_the_mean_over_teachers_of_both_directions():
    torch.manual_seed(0)
    models = [OrderModel(MODEL), OrderModel(MODEL)]
    images = torch.rand(4, 3, 32, 32)
    first, second = torch.tensor([0, 1, 3]), torch.tensor([2, 0, 1])
    teachers = Teachers([Teacher(model) for model in models], MODEL)
    told = teachers.judge(images, first, second)
    assert told.histogram is None
    slow = torch.zeros(3, 3)
    for model in models:
        mean = model.eval()(images).mean
        for pair, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            there, back = model.comparator(mean[i], mean[j]), model.comparator(mean[j], mean[i])
            slow[pair] += ((there + back.flip(-1)) / 2).softmax(-1) / 2
    assert torch.allclose(told.order, slow, atol=1e-6)
    assert torch.allclose(told.order, teachers.judge(images, second, first).order.flip(-1), atol=1e-6)
    assert not any(parameter.requires_grad for model in models for parameter in model.parameters())


def test_a_teacher_of_another_size_sees_the_images_in_its_own(folder):
    pupil = MODEL.model_copy(update={"resize": 64, "crop": 64})
    teachers = Teachers.load([folder], pupil)
    pixels = torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8)
    rows = torch.arange(2), torch.arange(1, 3)
    assert torch.allclose(teachers.judge(pixels, *rows).order, teachers.judge(pixels / 255, *rows).order, atol=1e-6)
    with pytest.raises(CallError, match="sees more of images than its pupil"):
        Teachers.load([folder], MODEL.model_copy(update={"resize": 40}))


@pytest.mark.filterwarnings("ignore:.*without manifest.json")
def test_a_teacher_used_to_the_middle_of_images_is_shown_that(folder):
    config = forget_digests(Path(folder)) / "config.json"
    values = json.loads(config.read_text())
    config.write_text(json.dumps(values | {"model": values["model"] | {"resize": 64}}))
    pupil = MODEL.model_copy(update={"resize": 64, "crop": 64})
    pixels = torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8)
    rows = torch.arange(2), torch.arange(1, 3)
    told = Teachers.load([folder], pupil).judge(pixels, *rows).order
    model = Scorer.from_pretrained(folder).model
    model.config = MODEL
    shown = pixels[..., 16:48, 16:48]
    assert torch.allclose(told, Teachers([Teacher(model)], MODEL).judge(shown, *rows).order, atol=1e-6)


def test_the_target_of_a_pair_is_mixed_with_the_teachers(drawn, folder):
    recipe = quick_recipe(teachers=[folder], teacher_weight=0.25)
    batch = fixed_batches(PackedImages.pack(drawn, MODEL), recipe, torch.device("cpu"))[0]
    method = Uol(recipe, drawn.scale).eval()
    told = Teachers.load([folder], MODEL).judge(batch.images, batch.first, batch.second).order
    mixed = batch._replace(target=0.75 * batch.target + 0.25 * told)
    gaussians: Gaussians = method.model(batch.images)
    torch.manual_seed(0)
    expected = method.order_losses(gaussians, mixed)["total"]
    torch.manual_seed(0)
    assert torch.allclose(method(batch)["total"], expected, atol=1e-6)


@pytest.mark.slow
def test_histograms_are_taught_where_pupil_and_teachers_tell_them(drawn, tmp_path):
    told = MODEL.model_copy(update={"levels": 5})
    taught = {"model": told.model_dump(), "histogram_weight": 0.5, "epochs": 1}
    packed = PackedImages.pack(drawn, told)
    scorer = run(packed, quick_recipe(**taught), tmp_path / "run", accelerator="cpu").scorer
    scorer.save_pretrained(tmp_path / "told")
    recipe = quick_recipe(**taught, teachers=[str(tmp_path / "told")], teacher_weight=0.25)
    batch = fixed_batches(packed, recipe, torch.device("cpu"))[0]
    batch = batch._replace(histogram=batch.histogram.index_fill(0, torch.tensor([1]), float("nan")))
    method = Uol(recipe, drawn.scale, levels=5).eval()
    method.prepare_for(packed)
    model = scorer.model.eval()
    said = model.levels(model(batch.images).mean).softmax(-1)
    mixed = 0.75 * batch.histogram + 0.25 * said
    mixed[1] = said[1]  # the panel has none of it
    own = method.model.levels(method.model(batch.images).mean)
    assert method(batch)["histogram"].item() == pytest.approx(-(mixed * own.log_softmax(-1)).sum(-1).mean().item())


@pytest.mark.slow
def test_histograms_of_another_panel_are_not_taught(drawn, tmp_path):
    told = MODEL.model_copy(update={"levels": 5})
    recipe = quick_recipe(model=told.model_dump(), histogram_weight=0.5, epochs=1)
    scorer = run(PackedImages.pack(drawn, told), recipe, tmp_path / "run", accelerator="cpu").scorer
    plain = run(PackedImages.pack(drawn, MODEL), quick_recipe(epochs=1), tmp_path / "other", accelerator="cpu").scorer
    for name, model in (("told", scorer), ("anchored", scorer.anchor(drawn)), ("plain", plain)):
        model.save_pretrained(tmp_path / name)
    rows = torch.rand(2, 3, 32, 32), torch.tensor([0]), torch.tensor([1])

    def taught(names, pupil=told, **other):
        teachers = Teachers.load([str(tmp_path / name) for name in names], pupil)
        assert teachers.judge(*rows).histogram is None  # before it is known whose they should be
        rated = replace(drawn, **other)
        teachers.prepare_for([PanelConfig.of(rated.name, rated.scale, 5)])
        return teachers.judge(*rows).histogram is not None

    assert taught(["told", "told"])
    assert not taught(["told", "anchored"])
    assert not taught(["told", "plain"])
    assert not taught(["told"], pupil=MODEL)
    assert not taught(["told"], name="another")
    assert not taught(["told"], scale=Scale(0, 5))


@pytest.mark.slow
def test_teachers_are_neither_trained_nor_kept(drawn, folder, tmp_path):
    recipe = quick_recipe(teachers=[folder], epochs=1)
    method = run(PackedImages.pack(drawn, MODEL), recipe, tmp_path / "run", accelerator="cpu")
    plain = Uol(quick_recipe(), drawn.scale)
    assert [name for name, _ in method.named_parameters()] == [name for name, _ in plain.named_parameters()]
    assert method.state_dict().keys() == plain.state_dict().keys()


def test_a_pupil_may_begin_as_its_first_teacher(drawn, folder, tmp_path, trained):
    torch.manual_seed(5)
    other = tmp_path / "other"
    told = trained.scorer
    Scorer(OrderModel(MODEL), told.references, told.panel, told.bradley_terry).save_pretrained(other)
    for first, second in ((folder, str(other)), (str(other), folder)):
        pupil = Uol(quick_recipe(teachers=[first, second], start="teacher"), drawn.scale).model
        begun, given = pupil.state_dict(), Scorer.from_pretrained(first).model.state_dict()
        assert begun.keys() == given.keys()
        assert all(torch.equal(begun[name], given[name]) for name in given)
        assert any(parameter.requires_grad for parameter in pupil.parameters())
    plain = Uol(quick_recipe(teachers=[folder]), drawn.scale).model
    assert not torch.equal(plain.mean.weight, trained.scorer.model.mean.weight)


@pytest.mark.slow
def test_a_pupil_that_began_as_its_teacher_is_trained_and_the_teacher_is_not(drawn, folder, tmp_path):
    recipe = quick_recipe(teachers=[folder], start="teacher", epochs=1)
    batch = fixed_batches(PackedImages.pack(drawn, MODEL), recipe, torch.device("cpu"))[0]
    method = run(PackedImages.pack(drawn, MODEL), recipe, tmp_path / "run", accelerator="cpu")
    given = Scorer.from_pretrained(folder).model
    assert not torch.equal(method.model.mean.weight, given.mean.weight)
    fresh = Teachers.load([folder], MODEL)
    rows = batch.images, batch.first, batch.second
    assert torch.allclose(method._teachers.judge(*rows).order, fresh.judge(*rows).order, atol=1e-6)


def test_what_is_no_beginning_is_told_in_one_line(drawn, folder):
    wider = MODEL.model_copy(update={"dimensions": 32})
    with pytest.raises(CallError, match="the first teacher and its pupil are different networks") as caught:
        Uol(quick_recipe(teachers=[folder], start="teacher", model=wider.model_dump()), drawn.scale)
    assert "\n" not in str(caught.value)
    with pytest.raises(CallError, match="start: teacher requires teachers") as caught:
        Uol(quick_recipe(start="teacher"), drawn.scale)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_run_does_not_go_on_with_other_teachers(drawn, folder, tmp_path):
    packed = PackedImages.pack(drawn, MODEL)
    recipe = quick_recipe(teachers=[folder], epochs=2)

    def kill(report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(packed, recipe, tmp_path / "run", kill, accelerator="cpu")
    weights = tmp_path / "teacher" / "model.safetensors"
    assert weights_digest(tmp_path / "teacher") == hashlib.sha256(weights.read_bytes()).hexdigest()
    as_it_was = load_file(weights)
    save_file({key: tensor + 1 if tensor.is_floating_point() else tensor for key, tensor in as_it_was.items()}, weights)
    write_digests(tmp_path / "teacher")
    with pytest.raises(CallError, match="holds a run with other teachers"):
        run(packed, recipe, tmp_path / "run", accelerator="cpu")
    save_file(as_it_was, weights)
    write_digests(tmp_path / "teacher")
    run(packed, recipe, tmp_path / "run", accelerator="cpu")
    progress = read_progress(tmp_path / "run" / "checkpoint.safetensors")
    assert progress.epoch == 2
    assert progress.data == hold_out(packed, recipe)[0].fingerprint + taught([folder])


@pytest.mark.slow
def test_a_checkpoint_from_before_teachers_were_noted_goes_on(drawn, folder, tmp_path, monkeypatch):
    packed = PackedImages.pack(drawn, MODEL)
    recipe = quick_recipe(teachers=[folder], epochs=2)

    def kill(report):
        raise KeyboardInterrupt

    monkeypatch.setattr(training_run, "taught", lambda teachers: "")
    with pytest.raises(KeyboardInterrupt):
        run(packed, recipe, tmp_path / "run", kill, accelerator="cpu")
    monkeypatch.undo()
    run(packed, recipe, tmp_path / "run", accelerator="cpu")
    assert read_progress(tmp_path / "run" / "checkpoint.safetensors").data.endswith(taught([folder]))


def test_a_folder_named_like_a_model_that_ships_is_not_taken_for_it(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = names()[0]
    trained.scorer.save_pretrained(tmp_path / name)
    assert find_teacher(f"./{name}") == tmp_path / name
    assert find_teacher(name) == find_model(name) != tmp_path / name
    assert Teachers.load([f"./{name}"], MODEL).judge(
        torch.rand(2, 3, 32, 32), *torch.arange(2)[:, None]
    ).order.shape == (
        1,
        3,
    )


@pytest.mark.slow
def test_each_split_has_its_own_teacher_and_no_other_is_taken(drawn, tmp_path):
    packed = PackedImages.pack(drawn, MODEL)
    one = drawn.splits["default"]
    other = Split(one.train[::-1][:60].copy(), one.test)
    origin = Origin("quick", {})
    pupil = quick_recipe(epochs=1, teachers=[str(tmp_path / "teachers" / "{split}")])
    with pytest.raises(CallError, match="no such model folder"):
        train_and_test(packed, "fold-1", one, pupil, tmp_path / "pupil", origin)
    train_and_test(packed, "fold-1", one, quick_recipe(epochs=1), tmp_path / "teachers" / "fold-1", origin)
    result = train_and_test(packed, "fold-1", one, pupil, tmp_path / "pupil", origin)
    assert result.provenance.settings["teachers"] == list(pupil.teachers)
    fixed = quick_recipe(epochs=1, teachers=[str(tmp_path / "teachers" / "fold-1" / "model")])
    with pytest.raises(CallError, match="was trained on fold-1, with images that fold-2 tests on"):
        train_and_test(packed, "fold-2", other, fixed, tmp_path / "second", origin)
