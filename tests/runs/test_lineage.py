"""What teachers have learnt from is kept with the pupil, and reaches neither its tests nor its calibration."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quick import quick_recipe
from uol.errors import CallError, UolError
from uol.ratings.rated_images import RatedImages, Split
from uol.ratings.splits import find_split
from uol.runs.folder import RunFolder
from uol.runs.lineage import Lineage, check_teachers, read_lineage, teachers_together, teachers_used
from uol.runs.multi_panel import PanelSplit
from uol.runs.predictions import keep_evaluation
from uol.runs.read_run import read_run
from uol.runs.result import Result, read_result, write_result
from uol.runs.result_checks import check_together, read_results
from uol.runs.train_and_test import Origin, finished, train_and_test
from uol.scoring.released import names, weights_digest
from uol.training.packed import PackedImages
from uol.training.recipe import load_recipe

TRAIN, TEST = np.arange(1, 80, 2), np.arange(0, 80, 2)  # of fold-1 of `folded`
FOLDS = {"fold-1": Split(TRAIN, TEST), "fold-2": Split(TEST, TRAIN)}
WHOLE = Split(np.arange(80), np.arange(0))


def trained(rated: RatedImages, folder: Path, name="fold-1", split=FOLDS["fold-1"], beside=(), **changes) -> Result:
    recipe = quick_recipe(**({"epochs": 1} | changes))
    packed = PackedImages.pack(rated, recipe.model)
    return train_and_test(packed, name, split, recipe, folder, Origin("quick", {}), others=beside)


@pytest.fixture(scope="module")
def teacher(folded, tmp_path_factory):
    """A run on fold-1 that held out what its seed, 0, says."""
    folder = tmp_path_factory.mktemp("taught") / "teacher"
    trained(folded, folder)
    return folder


def changed(folder: Path, other: Path, **parts: object) -> str:
    """The same run with other things said in its provenance."""
    values = json.loads((folder / "result.json").read_text())
    for key, value in parts.items():
        place = values["provenance"]
        for step in key.split("__")[:-1]:
            place = place[step]
        if value is None:
            place.pop(key.split("__")[-1], None)
        else:
            place[key.split("__")[-1]] = value
    other.mkdir()
    (other / "result.json").write_text(json.dumps(values))
    (other / "model").symlink_to(folder / "model")
    return str(other)


def check(folder: object, rated: RatedImages, name="fold-1", split=FOLDS["fold-1"], **changes: object) -> None:
    check_teachers(quick_recipe(teachers=[str(folder)], **changes), rated, name, split, split.train)


@pytest.mark.slow
def test_a_pupil_tells_what_its_teachers_learnt_from(folded, teacher, tmp_path):
    own = read_result(teacher / "result.json").provenance
    assert own.teachers is None
    assert "teachers" not in json.loads((teacher / "result.json").read_text())["provenance"]
    pupil = trained(folded, tmp_path / "pupil", teachers=[str(teacher)])
    (told,) = pupil.provenance.teachers
    assert (told.model, told.recipe, told.seed, told.commit) == (str(teacher), "quick", 0, own.commit)
    assert told.weights == weights_digest(teacher / "model")
    (seen,) = told.data
    assert (seen.name, seen.fingerprint, seen.split) == (folded.name, folded.fingerprint, "fold-1")
    assert seen.division == own.data.division == folded.division(FOLDS["fold-1"])
    assert read_result(tmp_path / "pupil" / "result.json") == pupil
    assert teachers_together([pupil.provenance, pupil.provenance, own]) == [told.model_dump()]
    assert teachers_together([own]) is None


@pytest.mark.slow
def test_what_a_teacher_learnt_from_is_no_transfer_however_far_back(folded, drawn_b, tmp_path):
    other = replace(drawn_b, name="mebeauty")
    packed = PackedImages.pack(other, quick_recipe().model)
    beside = [PanelSplit(packed, "fold-1", FOLDS["fold-1"])]
    trained(folded, tmp_path / "first", beside=beside)
    trained(folded, tmp_path / "second", teachers=[str(tmp_path / "first")])
    pupil = trained(folded, tmp_path / "pupil", teachers=[str(tmp_path / "second")])
    assert pupil.provenance.learnt_from == {folded.name, "mebeauty"}
    figures = pupil.metrics.model_dump()
    table = pd.DataFrame({"score": other.scores, "value": other.scores})
    keep_evaluation(RunFolder(tmp_path / "pupil"), "mebeauty", None, "whole", figures, table)
    assert read_run(RunFolder(tmp_path / "pupil")).transfer == {}
    values = pupil.model_dump() | {"transfer": {"mebeauty": figures | {"split": None, "framing": "whole"}}}
    with pytest.raises(ValueError, match=r"transfer\.mebeauty: a teacher of the network was trained on"):
        Result.model_validate(values)
    # a set that only the teacher's teacher was trained on is tested on by another split
    with pytest.raises(CallError, match="was trained on fold-1, with images that fold-2 tests on"):
        check(tmp_path / "second", other, "fold-2", FOLDS["fold-2"])


@pytest.mark.slow
def test_no_test_image_of_any_panel_may_have_trained_a_teacher(folded, drawn_b, tmp_path):
    mirrored = [np.asarray(image)[:, ::-1].copy() for image in drawn_b.images]  # copies of test images do not train
    other = replace(drawn_b, name="other", images=mirrored, splits=FOLDS)
    recipe = quick_recipe(epochs=1)
    packed = PackedImages.pack(other, recipe.model)
    first, second = (PanelSplit(packed, name, FOLDS[name]) for name in FOLDS)
    trained(folded, tmp_path / "both", beside=[first])
    teachers = [str(tmp_path / "both")]
    # the second panel's test images trained the teacher, the first's did not
    with pytest.raises(CallError, match="was trained on fold-1, with images that fold-2 tests on"):
        trained(folded, tmp_path / "refused", beside=[second], teachers=teachers)
    assert not (tmp_path / "refused").exists()
    pupil = trained(folded, tmp_path / "pupil", beside=[first], teachers=teachers)
    assert [seen.name for seen in pupil.provenance.teachers[0].data] == [folded.name, "other"]
    with pytest.raises(CallError, match="was trained on images that its pupil holds out to calibrate"):
        trained(folded, tmp_path / "held", beside=[first], teachers=teachers, held_out_seed=5)


def test_a_teacher_of_a_teacher_that_is_not_told_of_is_refused(folded, teacher, tmp_path):
    older = changed(teacher, tmp_path / "older", settings__teachers=["runs/strong/{split}"])
    with pytest.raises(CallError, match="had teachers, and what they were trained on is not recorded"):
        check(older, folded)


def test_the_same_photographs_with_other_ratings_are_no_other_data_set(folded, tmp_path, teacher):
    with pytest.raises(CallError, match="was trained on different images or ratings of synthetic-a"):
        check(teacher, replace(folded, scores=folded.scores + 1e-9))
    check(teacher, replace(folded, scores=folded.scores + 1e-9, name="another"))


def test_a_split_is_known_by_its_images_not_by_its_name(folded, teacher, tmp_path, uol):
    check(teacher, folded)
    turned = FOLDS["fold-2"]
    with pytest.raises(CallError, match="fold-1 of synthetic-a has changed since it was trained"):
        check(teacher, folded, split=turned)
    older = changed(teacher, tmp_path / "older", data__division=None)
    check(older, folded)
    result = read_result(teacher / "result.json")
    packed = PackedImages.pack(folded, quick_recipe().model)
    asked = (folded, packed.checksum, "fold-1", quick_recipe(epochs=1))
    assert finished(RunFolder(teacher), *asked) == result
    assert finished(RunFolder(teacher), *asked, parts=turned) is None
    assert finished(RunFolder(teacher), replace(folded, splits={"fold-1": turned}), *asked[1:]) is None
    assert finished(RunFolder(tmp_path / "older"), *asked, parts=turned) is not None  # from before it was kept
    with pytest.raises(CallError, match="run on other images"):
        trained(folded, teacher, split=turned)
    own = Lineage.of(result).split_of(folded.fingerprint)
    own.check(teacher, folded)
    with pytest.raises(CallError, match="fold-1 of synthetic-a has changed since it was trained"):
        own.check(teacher, replace(folded, splits={"fold-1": turned}))


def test_a_division_follows_the_names_that_train_and_test(folded):
    one = folded.division(FOLDS["fold-1"])
    assert one == folded.division(Split(TRAIN.copy(), TEST.copy()))
    assert one not in {folded.division(split) for split in (FOLDS["fold-2"], WHOLE, Split(TRAIN, TEST[1:]))}


@pytest.mark.slow
def test_what_a_pupil_holds_out_did_not_train_its_teacher(folded, teacher, tmp_path):
    told = "use the same held_out and held_out_seed"
    for different in ({"seed": 1}, {"held_out_seed": 3}, {"held_out": 0.4}):
        with pytest.raises(CallError, match=told):
            check(teacher, folded, **different)
    check(teacher, folded, seed=1, held_out_seed=0)
    check(teacher, folded, held_out=0.1)  # a part of what the teacher held out
    check(teacher, folded, seed=1, held_out=0)  # nothing to calibrate with
    with pytest.raises(CallError, match=told):  # a fold's teacher knows most of what the whole set's pupil holds out
        check(teacher, folded, "whole", WHOLE)
    inner = find_split(folded, "fold-1-inner")
    trained(folded, tmp_path / "inner", "fold-1-inner", inner)
    with pytest.raises(CallError, match=told):
        check(tmp_path / "inner", folded, "whole", WHOLE)
    check(tmp_path / "inner", folded, "fold-1-inner", inner)
    with pytest.raises(CallError, match="fold-1 of .*, which is missing or has changed"):
        check(teacher, replace(folded, splits={}), "whole", WHOLE)
    part = changed(teacher, tmp_path / "part", data__training=20)
    with pytest.raises(CallError, match="was trained on a part of fold-1 only: which images it held out is not known"):
        check(part, folded)


def test_the_fast_recipe_may_be_taught_by_the_strong_one(folded, teacher, tmp_path):
    settings = load_recipe("strong").model_dump(mode="json")
    kept = max(round(40 * settings["held_out"]), 2)
    parts = {"settings": settings, "data__training": 40 - kept, "data__held_out": kept, "data__division": None}
    strong = changed(teacher, tmp_path / "fold-1", **parts)
    fast = load_recipe("fast", {"teachers": [strong.replace("fold-1", "{split}")]}).for_split("fold-1")
    check_teachers(fast, folded, "fold-1", FOLDS["fold-1"], TRAIN)
    with pytest.raises(CallError, match="held_out_seed"):
        check_teachers(fast.with_changes({"seed": 1}), folded, "fold-1", FOLDS["fold-1"], TRAIN)


@pytest.mark.slow
def test_networks_of_whole_data_sets_tell_by_their_provenance(folded, tmp_path):
    assert trained(folded, tmp_path / "whole", "whole", WHOLE) is None
    (found,) = teachers_used([str(tmp_path / "whole")])
    assert (found["recipe"], found["seed"]) == ("quick", 0)
    assert [(seen["name"], seen["split"]) for seen in found["data"]] == [(folded.name, "whole")]
    assert trained(folded, tmp_path / "pupil", "whole", WHOLE, teachers=[str(tmp_path / "whole")]) is None
    made = json.loads((tmp_path / "pupil" / "provenance.json").read_text())
    assert made["teachers"] == [found]
    assert [seen.name for seen in read_lineage(tmp_path / "pupil" / "model").seen] == [folded.name]
    with pytest.raises(CallError, match="was trained on whole, with images that fold-1 tests on"):
        check(tmp_path / "whole", folded)
    (tmp_path / "whole" / "provenance.json").write_text("[]")
    with pytest.raises(UolError, match=r"provenance\.json: damaged or of another version"):
        read_lineage(tmp_path / "whole" / "model")


def test_models_that_ship_tell_what_they_learnt_from():
    one, three = ["scut-fbp5500"], ["scut-fbp5500", "mebeauty", "omi"]
    assert {
        found["model"]: (found["recipe"], [seen["name"] for seen in found["data"]]) for found in teachers_used(names())
    } == {
        "uol-fast": ("panels-fast", three),
        "uol-large": ("panels-large", three),
        "uol-fast-scut5500": ("fast", one),
        "uol-vgg16-scut5500": ("distilled", one),
    }


def test_a_model_of_which_nothing_is_known_teaches_whole_data_sets_alone(folded, model_folder):
    check(model_folder, folded, "whole", WHOLE)
    (found,) = teachers_used([str(model_folder)])
    assert (found["data"], found["commit"]) == (None, None)
    with pytest.raises(CallError, match=r"must be a run folder with result\.json"):
        check(model_folder, folded)


def test_a_run_named_like_a_model_that_ships_is_not_checked_in_its_place(folded, teacher, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "uol-fast-scut5500"  # which had a teacher
    (tmp_path / name).symlink_to(teacher)
    with pytest.raises(CallError, match="had teachers"):  # the one that ships: its result was not looked at
        check(name, folded)
    check(f"./{name}", folded)


@pytest.mark.slow
def test_the_panels_of_a_joint_teacher_are_its_own(folded, drawn_b, tmp_path):
    packed = PackedImages.pack(drawn_b, quick_recipe().model)
    trained(folded, tmp_path / "joint", beside=[PanelSplit(packed, "fold-1", FOLDS["fold-1"])])
    inside = tmp_path / "joint" / "model"
    assert [seen.name for seen in read_lineage(inside).seen] == ["synthetic-a", "synthetic-b"]
    check(inside, drawn_b)
    with pytest.raises(CallError, match="held_out_seed"):
        check(inside, drawn_b, seed=1)


@pytest.fixture(scope="module")
def whole_run(drawn, drawn_b, tmp_path_factory):
    """A run on all images of one panel, and on the training images of another."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    other = PanelSplit(PackedImages.pack(drawn_b, quick_recipe().model), "default", drawn_b.splits["default"])
    assert trained(drawn, folder, "whole", WHOLE, beside=[other]) is None
    return folder


def test_a_whole_data_set_leaves_no_image_to_evaluate_its_model_on(whole_run, drawn, monkeypatch, uol):
    monkeypatch.setattr("uol.datasets.load", lambda *_, **__: drawn)
    for place in (whole_run, whole_run / "model"):
        code, out, said = uol("evaluate", place, "--data", "synthetic")
        assert (code, out) == (2, "")
        assert "was trained on every image of synthetic-a: none is left to test it on" in said


def test_another_panel_of_a_run_on_a_whole_set_is_evaluated_on_its_test_images(whole_run, drawn_b, monkeypatch, uol):
    monkeypatch.setattr("uol.datasets.load", lambda *_, **__: drawn_b)
    found = []
    for place in (whole_run, whole_run / "model"):
        code, out, said = uol("evaluate", place, "--data", "synthetic", "--json")
        assert code == 0, said
        found.append(json.loads(out))
    assert [(one["split"], one["images"]) for one in found] == [("default", 20)] * 2
    assert found[0]["mae"] == found[1]["mae"]
    assert not (whole_run / "evaluations").exists()


def test_teachers_are_looked_at_before_images_are_read(drawn, tmp_path, uol, monkeypatch):
    monkeypatch.setattr("uol.datasets.load", lambda *_, **__: drawn)
    monkeypatch.setattr(PackedImages, "pack", lambda *_: pytest.fail("images were read"))
    called = ("train", "--data", "synthetic", "--recipe", "demo", "--out", tmp_path / "run")
    code, _, said = uol(*called, "--set", f"teachers=[{tmp_path / 'nowhere'}]")
    assert code == 2
    assert "no such model folder" in said
    (tmp_path / "unfinished").mkdir()
    code, _, said = uol(*called, "--set", f"teachers=[{tmp_path / 'unfinished'}]")
    assert code == 2
    assert "must be a run folder with result.json" in said


def test_results_from_before_are_read_and_written_as_they_were(tmp_path):
    folder = Path(__file__).parents[2] / "results" / "scut-fbp5500"
    found = [result for result in read_results(folder) if result.recipe == "fast"]
    assert found
    for result in found:
        write_result(tmp_path / "result.json", result)
        assert json.loads((tmp_path / "result.json").read_text()) == json.loads((folder / result.file_name).read_text())


def test_a_row_from_before_may_have_further_folds(folded, teacher):
    folder = Path(__file__).parents[2] / "results" / "scut-fbp5500"
    older = read_result(folder / "uol-fast-fold-1-seed-0.json")
    values = older.model_dump() | {"split": "fold-9"}
    values["provenance"] |= {"teachers": teachers_used([str(teacher)])}
    values["provenance"]["data"] |= {"division": folded.division(FOLDS["fold-1"])}
    check_together({Path("one"): older, Path("two"): Result.model_validate(values)})
    values["provenance"]["settings"] |= {"teacher_weight": 0.9}
    with pytest.raises(UolError, match="teacher_weight"):
        check_together({Path("one"): older, Path("two"): Result.model_validate(values)})
