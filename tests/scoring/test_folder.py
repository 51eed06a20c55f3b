"""Model folders: the same scores after a round trip, and one line for what is missing or damaged."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from quick import CALIBRATION, forget_digests, untrained
from uol.errors import CallError, ImageError, UolError
from uol.scoring.bulk import score_files
from uol.scoring.config import read_config
from uol.scoring.scorer import Scorer

OLDER = pytest.mark.filterwarnings("ignore:.*without manifest.json")


@pytest.fixture
def copy(model_folder, tmp_path):
    return shutil.copytree(model_folder, tmp_path / "copy")


@pytest.fixture
def older(copy):
    """A copy without digests, whose files may be changed."""
    return forget_digests(copy)


def test_round_trip(trained, model_folder, drawn):
    assert sorted(path.name for path in model_folder.iterdir()) == [
        "README.md", "config.json", "manifest.json", "model.safetensors", "references.safetensors",
    ]  # fmt: skip
    assert Scorer.from_pretrained(model_folder).score(drawn.images[:9]) == trained.scorer.score(drawn.images[:9])


def test_the_card_says_what_the_scores_mean(model_folder):
    card = (model_folder / "README.md").read_text(encoding="utf-8")
    assert "measures nothing about a person" in card
    assert "scale of\n1 to 5" in card


def test_no_image_is_kept(model_folder, trained):
    references = load_file(model_folder / "references.safetensors")
    assert set(references) == {"mean", "log_variance", "score"}
    assert references["mean"].shape == (len(trained.scorer.references), 16)


@OLDER
@pytest.mark.parametrize("digests", [True, False])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "references.safetensors"])
def test_missing_and_damaged_files_are_named(copy, name, digests):
    if not digests:
        forget_digests(copy)
    (copy / name).write_bytes(b"\x00damaged")
    with pytest.raises(UolError, match=name) as caught:
        Scorer.from_pretrained(copy)
    assert "\n" not in str(caught.value)
    (copy / name).unlink()
    with pytest.raises(UolError, match=f"{name} is missing"):
        Scorer.from_pretrained(copy)


@OLDER
def test_files_that_do_not_fit_each_other(older):
    copy = older
    config = json.loads((copy / "config.json").read_text())
    config["model"]["dimensions"] = 8
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(UolError, match=r"model.safetensors: does not fit"):
        Scorer.from_pretrained(copy)
    config["model"]["dimensions"] = 16
    (copy / "config.json").write_text(json.dumps(config))
    save_file(
        {"mean": torch.zeros(3, 4), "log_variance": torch.zeros(3, 4), "score": torch.zeros(3)},
        copy / "references.safetensors",
    )
    with pytest.raises(UolError, match="do not fit a space of 16"):
        Scorer.from_pretrained(copy)
    config["format"] = 99
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(UolError, match="newer uol"):
        Scorer.from_pretrained(copy)


def test_no_folder():
    with pytest.raises(CallError, match="no such model folder"):
        Scorer.from_pretrained("nowhere")


def test_a_folder_with_other_files_is_never_replaced(trained, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("precious")
    with pytest.raises(CallError, match="other files in it"):
        trained.scorer.save_pretrained(tmp_path / "photos")
    assert (tmp_path / "photos" / "a.jpg").read_text() == "precious"
    for _ in range(2):  # an older model is replaced
        trained.scorer.save_pretrained(tmp_path / "model")


@OLDER
@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("bradley_terry", "k", -1.0), ("bradley_terry", "k", 1e300), ("bradley_terry", "delta", 0.0),
        ("panel", "high", 0.0), ("panel", "high", 1e12), ("panel", "low", float("nan")),
        ("model", "backbone", "vgg-16"), ("model", "dimensions", 10**9), ("model", "crop", 10**6),
        ("model", "hidden", 2**62), ("scoring", "samples", 10**12), ("scoring", "zooms", [1.0] * 10**4),
        ("calibration", "slope", 1e9), ("calibration", "intercept", -1e7), ("calibration", "quantile", float("inf")),
        ("calibration", "temperature", float("nan")),
    ],
)  # fmt: skip
def test_senseless_settings_are_refused(older, part, name, value):
    config = json.loads((older / "config.json").read_text())
    config[part][name] = value
    (older / "config.json").write_text(json.dumps(config))
    with pytest.raises(UolError, match=r"config.json") as caught:
        Scorer.from_pretrained(older)
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)


@OLDER
def test_every_setting_of_a_calibration_is_required(older):
    whole = (older / "config.json").read_text()
    for group in ("calibration", "panel", "bradley_terry", "scoring"):
        for name in set(json.loads(whole)[group]) - {"zooms", "histogram_share"}:
            config = json.loads(whole)
            del config[group][name]
            (older / "config.json").write_text(json.dumps(config))
            with pytest.raises(UolError, match=rf"config.json: damaged .*{group}.{name}"):
                Scorer.from_pretrained(older)


@OLDER
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 10**5, "nested too deeply"),
        ('{"format": -1}', "format: -1 is unknown"),
        ('{"format": "1"}', "format: '1' is unknown"),
        ('{"format": 1, "format": 1}', "'format' occurs twice"),
        ("[]", "not an object of settings"),
        (" " * 2**21, "larger than a megabyte"),
    ],
)
def test_a_config_that_is_none_is_refused(older, text, words):
    (older / "config.json").write_text(text)
    with pytest.raises(UolError, match=words):
        Scorer.from_pretrained(older)
    (older / "config.json").unlink()
    os.mkfifo(older / "config.json")
    with pytest.raises(UolError, match=r"config.json: not a file"):
        Scorer.from_pretrained(older)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "references.safetensors", "manifest.json"])
@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
def test_one_flipped_bit_is_noticed(copy, name, place):
    content = bytearray((copy / name).read_bytes())
    content[int(place * len(content))] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(UolError) as caught:
        Scorer.from_pretrained(copy)
    assert "\n" not in str(caught.value)
    assert str(copy) in str(caught.value)


def test_a_folder_without_digests_is_read_with_one_warning(older):
    with pytest.warns(UserWarning, match=r"without manifest.json, damage to its files cannot be noticed"):
        Scorer.from_pretrained(older)
    Scorer.from_pretrained(older)  # an error, were it to warn again


def test_files_that_the_manifest_does_not_list_are_refused(copy):
    (copy / "model.onnx").write_bytes(b"another graph")
    with pytest.raises(UolError, match=r"model.onnx: not listed in manifest.json"):
        Scorer.from_pretrained(copy)


@OLDER
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_never_give_a_score(older, drawn, value, image_files):
    tensors = load_file(older / "model.safetensors")
    name = next(name for name in tensors if name.startswith("mean."))
    save_file(tensors | {name: torch.full_like(tensors[name], value)}, older / "model.safetensors")
    scorer = Scorer.from_pretrained(older)
    with pytest.raises(UolError, match="image 0: the model gives no number"):
        scorer.score(drawn.images[:2])
    assert all(isinstance(answer, ImageError) for answer in scorer.score(drawn.images[:2], errors="return"))
    with pytest.raises(UolError, match="gives no number"):
        scorer.compare(drawn.images[0], drawn.images[1])
    with pytest.raises(UolError, match="gives no number"):
        scorer.anchor(drawn)
    for _, (row,) in score_files(scorer, sorted(image_files.iterdir())[:2]):
        assert row["value"] is None
        assert "gives no number" in row["error"]


@pytest.mark.parametrize("name", [None, 3, b"model"])
def test_what_is_no_name_of_a_model_is_refused(name):
    with pytest.raises(CallError, match="a model is a name or a folder"):
        Scorer.from_pretrained(name)


def test_a_folder_that_names_the_border_of_faces_still_loads(copy):
    before = read_config(copy)
    config = json.loads((copy / "config.json").read_text())
    config["model"]["border"] = "edge"
    (copy / "config.json").write_text(json.dumps(config))
    assert read_config(copy) == before


def test_a_folder_from_before_division_was_a_choice_divides(copy):
    config = json.loads((copy / "config.json").read_text())
    assert config["model"].pop("normalise") == "mean-std"
    (copy / "config.json").write_text(json.dumps(config))
    assert read_config(copy).model.normalise == "mean-std"


def test_half_the_size_and_nearly_the_same_scores(trained, drawn, tmp_path):
    trained.scorer.save_pretrained(tmp_path / "full")
    trained.scorer.save_pretrained(tmp_path / "half", half=True)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("full", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    full, half = (Scorer.from_pretrained(tmp_path / name) for name in ("full", "half"))
    for one, two in zip(full.score(drawn.images[:20]), half.score(drawn.images[:20]), strict=True):
        assert one.value == pytest.approx(two.value, abs=0.02)
    assert half.references.scores.tolist() == full.references.scores.tolist()


def test_other_projects_folders_are_not_replaced(trained, tmp_path):
    for name, files in (("notes", ["README.md"]), ("theirs", ["config.json", "model.safetensors"])):
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_text('{"architectures": []}')
        with pytest.raises(CallError, match="a folder with other files in it"):
            trained.scorer.save_pretrained(tmp_path / name)
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == sorted(files)


def test_a_link_to_a_model_folder_stays_a_link(trained, tmp_path):
    trained.scorer.save_pretrained(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    trained.scorer.save_pretrained(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_a_steep_line_of_dispersions_is_read_as_it_was_fitted(tmp_path):
    steep = CALIBRATION.model_copy(update={"dispersion_slope": 23053.0, "dispersion_intercept": -1832.7})
    untrained(calibration=steep).save_pretrained(tmp_path / "model")
    assert read_config(tmp_path / "model").calibration == steep
