"""Several panels of one network: stored once, answered on each scale as by separate models, by either engine."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import astuple

import numpy as np
import pytest
import torch
from PIL import Image

from quick import forget_digests, noise, untrained
from uol.errors import CallError, UolError
from uol.order.bradley_terry import BradleyTerry
from uol.order.calibration import NEW_PANEL
from uol.order.norms import with_statistics
from uol.scoring.base import BaseScorer
from uol.scoring.bulk import score_files
from uol.scoring.config import PanelConfig
from uol.scoring.digests import write_digests
from uol.scoring.onnx import OnnxScorer
from uol.scoring.onnx_export import export_onnx
from uol.scoring.panels import panel_names
from uol.scoring.released import open_model
from uol.scoring.scorer import Scorer

PIXELS = noise(6, seed=3)


def scorer_of(first: Scorer, name: str, high: float, norms: bool, backbone_images: int) -> Scorer:
    """The network of another scorer with other references and, if asked, norms that saw other images."""
    images = torch.from_numpy(noise(30, seed=backbone_images) // 2)
    model = with_statistics(first.model, images) if norms else first.model
    mean, log_variance = model.embed(images)
    references = Scorer.read_references(
        first.stored_references()._replace(
            mean=mean.numpy(), log_variance=log_variance.numpy(), score=np.linspace(1, high, 30)
        )
    )
    panel = PanelConfig(name=name, low=1, high=high)
    calibration = first.calibration.model_copy(update={"intercept": 0.1 * high})
    return Scorer(model, references, panel, BradleyTerry(3.0, 0.4), calibration, first.scoring)


@pytest.fixture(scope="module")
def three():
    """Scorers of three panels: one network, whose norms the third panel has with other statistics."""
    first = untrained().with_tensors({})
    first.model = with_statistics(first.model, torch.from_numpy(noise(50, seed=4)))  # no two norms have the same
    first = scorer_of(first, "panel", 5, False, 7)
    return [first, scorer_of(first, "hundred", 100, False, 5), scorer_of(first, "ten", 10, True, 6)]


@pytest.fixture(
    scope="module", params=["torch", *(pytest.param(name, marks=pytest.mark.slow) for name in ("half", "onnx"))]
)
def loaded(request, three, tmp_path_factory) -> BaseScorer:
    folder = tmp_path_factory.mktemp("panels") / "model"
    together = copy.copy(three[0]).with_panels(three[1:])
    if request.param == "onnx":
        pytest.importorskip("onnxruntime")
        export_onnx(together, folder)
        return open_model(folder, "onnx")
    together.save_pretrained(folder, half=request.param == "half")
    return Scorer.from_pretrained(folder)


def figures(scores):
    return np.array([astuple(score) for score in scores])


def test_each_panel_answers_as_a_separate_model(loaded, three):
    assert [panel.name for panel in loaded.panels] == ["panel", "hundred", "ten"]
    together = loaded.score_panels(PIXELS)
    assert list(together) == ["panel", "hundred", "ten"]
    half = isinstance(loaded, Scorer) and not loaded.model.mean.weight.equal(three[0].model.mean.weight)
    for separate in three:
        name, unit = separate.panel.name, separate.panel.scale.unit
        expected = figures(separate.score_pixels(PIXELS)) / unit
        alone = loaded.on_panel(name)
        assert alone.panel == separate.panel
        near = {"abs": 0.05, "rel": 0.02} if half else {"abs": 1e-4, "rel": 1e-4}
        assert figures(alone.score_pixels(PIXELS)) / unit == pytest.approx(expected, **near)
        assert figures(together[name]) == pytest.approx(figures(alone.score_pixels(PIXELS)), rel=1e-4, abs=1e-4 * unit)
        compared = alone.compare_pixels(PIXELS[0], PIXELS[1])
        assert compared == pytest.approx(separate.compare_pixels(PIXELS[0], PIXELS[1]), abs=0.05 if half else 1e-4)


def test_an_unknown_panel_is_refused(loaded):
    with pytest.raises(CallError, match="panel hundret: this model does not know it; did you mean hundred"):
        loaded.on_panel("hundret")
    with pytest.raises(CallError, match="panel x: this model does not know it; it knows panel, hundred, ten"):
        loaded.on_panel("x")


@pytest.mark.parametrize("name", ["hundred", "ten"])
def test_one_of_several_panels_can_be_saved_alone(loaded, name, tmp_path):
    alone = loaded.on_panel(name)
    alone.save_pretrained(tmp_path / "model")
    again = BaseScorer.from_pretrained(tmp_path / "model")
    assert [panel.name for panel in again.panels] == [name]
    assert type(again) is type(loaded)
    assert figures(again.score_pixels(PIXELS)) == pytest.approx(figures(alone.score_pixels(PIXELS)), rel=1e-4, abs=1e-4)


def test_a_model_saved_again_knows_all_its_panels(loaded, tmp_path):
    loaded.save_pretrained(tmp_path / "model")
    again = BaseScorer.from_pretrained(tmp_path / "model")
    assert panel_names(tmp_path / "model") == ["hundred", "ten"]
    for name, scores in again.score_panels(PIXELS).items():
        assert figures(scores) == pytest.approx(figures(loaded.score_panels(PIXELS)[name]), rel=1e-4, abs=1e-4)


def test_an_anchored_model_has_the_new_panel_alone(loaded, drawn):
    anchored = loaded.anchor(drawn.subset(np.arange(12)))
    assert [panel.name for panel in anchored.panels] == [drawn.name]


def test_weights_are_stored_once(three, tmp_path):
    together = copy.copy(three[0]).with_panels(three[1:])
    together.save_pretrained(tmp_path / "model")
    three[0].save_pretrained(tmp_path / "one")
    inside = tmp_path / "model" / "panels"
    assert not (inside / "hundred" / "network.safetensors").exists()  # it shares every tensor
    assert (inside / "ten" / "network.safetensors").is_file()
    one, several = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("one", "model"))
    assert one == several
    assert len([*inside.rglob("*.safetensors")]) == 3


def test_a_network_that_knows_nothing_of_a_long_scale_is_loaded_again(three, tmp_path):
    vague = copy.copy(three[1])
    vague.bradley_terry = BradleyTerry(1.8e-5, 0.6)  # the least that is fitted to references from 0 to 100
    copy.copy(three[0]).with_panels([vague]).save_pretrained(tmp_path / "model")
    again = Scorer.from_pretrained(tmp_path / "model").on_panel("hundred")
    assert again.bradley_terry == vague.bradley_terry


@pytest.mark.filterwarnings("ignore:.*without manifest.json")
def test_damaged_panels_are_refused(three, tmp_path):
    folder = tmp_path / "model"
    copy.copy(three[0]).with_panels(three[1:]).save_pretrained(folder)
    for name in ("config.json", "references.safetensors", "network.safetensors"):
        path = folder / "panels" / "ten" / name
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(UolError, match=rf"panels/ten/{name}: damaged"):
            Scorer.from_pretrained(folder)
        path.write_bytes(content)
    shutil.move(folder / "panels", tmp_path / "panels")
    with pytest.raises(UolError, match=r"not a whole model folder: panels/hundred/config.json is missing"):
        Scorer.from_pretrained(folder)
    shutil.move(tmp_path / "panels", folder / "panels")
    forget_digests(folder)
    config = folder / "panels" / "ten" / "config.json"
    whole = config.read_text()
    for damaged, message in (
        (json.dumps(json.loads(whole) | {"bradley_terry": {"k": -1.0, "delta": 1.0}}), "k or δ makes no sense"),
        (whole.replace('"name": "ten"', '"name": "five"'), "it is of the panel five"),
        ("{", "damaged or of another version"),
    ):
        config.write_text(damaged)
        with pytest.raises(UolError, match=message):
            Scorer.from_pretrained(folder)
    config.write_text(whole)
    (folder / "panels" / "ten" / "references.safetensors").unlink()
    with pytest.raises(UolError, match="references.safetensors is missing"):
        Scorer.from_pretrained(folder)
    shutil.rmtree(folder / "panels")
    assert len(Scorer.from_pretrained(folder).panels) == 1


def test_rows_have_a_score_on_each_scale(loaded, tmp_path):
    for number, pixels in enumerate(PIXELS):
        Image.fromarray(pixels.transpose(1, 2, 0)).save(tmp_path / f"{number}.png")
    (tmp_path / "2.png").write_bytes(b"no image")
    paths = sorted(tmp_path.iterdir())
    rows = [row for _, found in score_files(loaded, paths, all_panels=True) for row in found]
    assert [row["error"] is None for row in rows] == [True, True, False, True, True, True]
    assert rows[2]["panels"] == {
        name: {"value": None, "low": None, "high": None, "dispersion": None} for name in ("panel", "hundred", "ten")
    }
    for name in ("panel", "hundred", "ten"):
        alone = [row for _, found in score_files(loaded.on_panel(name), paths) for row in found]
        for row, expected in zip(rows, alone, strict=True):
            if row["error"] is None:
                assert row["panels"][name]["value"] == pytest.approx(expected["value"], rel=1e-4)
    assert rows[0]["value"] == rows[0]["panels"]["panel"]["value"]


def test_scores_of_all_panels_from_the_command_line(uol, three, tmp_path):
    folder, images = tmp_path / "model", tmp_path / "images"
    copy.copy(three[0]).with_panels(three[1:]).save_pretrained(folder)
    images.mkdir()
    for number in range(2):
        Image.fromarray(PIXELS[number].transpose(1, 2, 0)).save(images / f"{number}.png")
    code, out, err = uol("score", images, "--model", folder, "--panel", "all", "--json")
    assert code == 0, err
    rows = json.loads(out)
    assert list(rows[0]["panels"]) == ["panel", "hundred", "ten"]
    code, out, _ = uol("score", images, "--model", folder, "--panel", "ten", "--json")
    (first, _) = json.loads(out)
    assert first["value"] == pytest.approx(rows[0]["panels"]["ten"]["value"], abs=1e-4)
    code, out, _ = uol("score", images, "--model", folder, "--panel", "all", "--csv")
    header, line, *_ = out.splitlines()
    assert header.split(",")[7:] == [
        *(
            f"{figure}_{name}"
            for name in ("panel", "hundred", "ten")
            for figure in ("value", "low", "high", "dispersion")
        ),
        "error",
    ]
    assert float(line.split(",")[15]) == pytest.approx(rows[0]["panels"]["ten"]["value"], abs=1e-4)
    code, out, _ = uol("score", images, "--model", folder, "--panel", "all")
    assert "hundred" in out
    assert f"{rows[0]['panels']['hundred']['value']:.2f} (" in out
    table = tmp_path / "all.csv"
    assert uol("score", images, "--model", folder, "--panel", "all", "--out", table)[0] == 0
    assert table.read_text().splitlines()[0] == header
    _, _, err = uol("score", images, "--model", folder, "--out", table)
    assert "2 rows, on the scale of panel, 1 to 5: " in err  # the file itself does not say it
    _, _, err = uol("score", images, "--model", folder, "--panel", "ten", "--out", table)
    assert "2 rows, on the scale of ten, 1 to 10: " in err
    code, _, err = uol("score", images, "--model", folder, "--panel", "all", "--explain", tmp_path / "why")
    assert (code, err) == (2, "uol: --explain draws the score of one panel; name it with --panel\n")
    code, out, err = uol("rank", images, "--model", folder, "--panel", "all")
    assert code == 2
    assert err.strip() == "uol: panel all: only scores have it (uol score --panel all); name one of panel, hundred, ten"


def test_a_model_is_anchored_from_the_panel_that_is_named(uol, three, image_files, tmp_path):
    folder, ratings = tmp_path / "model", tmp_path / "ratings.csv"
    rows = [f"{path.name},{1 + 0.4 * number}" for number, path in enumerate(sorted(image_files.iterdir()))]
    ratings.write_text("\n".join(["image,score", *rows]))
    copy.copy(three[0]).with_panels(three[1:]).save_pretrained(folder)
    figures = {}
    for name in ("panel", "ten"):  # whose norms have other statistics
        options = ("--model", folder, "--panel", name, "--out", tmp_path / name, "--json")
        code, out, err = uol("anchor", image_files, ratings, *options)
        assert code == 0, err
        figures[name] = json.loads(out)["mae"]
    assert figures["panel"] != figures["ten"]
    code, _, err = uol("anchor", image_files, ratings, "--model", folder, "--panel", "tem", "--out", tmp_path / "x")
    assert (code, err.splitlines()[-1]) == (2, "uol: panel tem: this model does not know it; did you mean ten?")


@pytest.mark.slow
def test_scores_of_a_graph_and_of_gaussians_agree(three, tmp_path):
    pytest.importorskip("onnxruntime")
    export_onnx(copy.copy(three[0]).with_panels(three[1:]), tmp_path / "model")
    scorer = OnnxScorer(tmp_path / "model")
    by_graph, by_gaussians = scorer.score_pixels(PIXELS), scorer.score_panels(PIXELS)["panel"]
    assert figures(by_graph) == pytest.approx(figures(by_gaussians), abs=1e-4)


def test_intervals_for_a_new_panel_have_one_width_on_every_scale(loaded):
    wide = loaded.for_new_panel()
    for name, scores in wide.score_panels(PIXELS).items():
        panel = next(panel for panel in loaded.panels if panel.name == name)
        half = 1.959964 * NEW_PANEL * panel.scale.unit
        for score, before in zip(scores, loaded.score_panels(PIXELS)[name], strict=True):
            assert score.value == before.value
            assert score.low == pytest.approx(max(score.value - half, panel.low))
            assert score.high == pytest.approx(min(score.value + half, panel.high))
            assert score.dispersion == before.dispersion
    assert wide.score_pixels(PIXELS)[0].high == pytest.approx(wide.score_panels(PIXELS)["panel"][0].high, abs=1e-4)
    assert loaded.score_pixels(PIXELS)[0].high != wide.score_pixels(PIXELS)[0].high


def test_intervals_for_a_new_panel_are_not_stored_in_place_of_the_models_own(loaded, drawn, tmp_path):
    for wide in (loaded.for_new_panel(), loaded.for_new_panel().on_panel("hundred")):
        with pytest.raises(CallError, match="intervals are for a new panel; save the model as opened without"):
            wide.save_pretrained(tmp_path / "wide")
    assert not (tmp_path / "wide").exists()
    loaded.for_new_panel().anchor(drawn.subset(np.arange(12))).save_pretrained(tmp_path / "anchored")  # has its own


def test_what_is_saved_from_an_opened_model_has_its_card(three, drawn, tmp_path):
    folder = tmp_path / "model"
    copy.copy(three[0]).with_panels(three[1:]).save_pretrained(folder)
    text = "---\nlicense_name: research\ntags: []\n---\n\n## Limits\n\n- For research alone.\n"
    (folder / "README.md").write_text(text)
    write_digests(folder)
    opened = BaseScorer.from_pretrained(folder)
    opened.on_panel("ten").save_pretrained(tmp_path / "ten")
    anchored = opened.on_panel("ten").anchor(drawn.subset(np.arange(12)))
    anchored.save_pretrained(tmp_path / "anchored")
    BaseScorer.from_pretrained(tmp_path / "anchored").save_pretrained(tmp_path / "again")
    shutil.rmtree(folder)
    opened.save_pretrained(tmp_path / "late")  # its card was read when it was opened
    for name in ("ten", "anchored", "again", "late"):
        card = (tmp_path / name / "README.md").read_text()
        assert card.count("- For research alone.") == 1
        assert card.count("tags:") == 1
        assert "license_name: research" in card
    for name in ("anchored", "again"):
        assert "anchors, each scored by comparison with" in (tmp_path / name / "README.md").read_text()
    assert "(not calibrated, so far too narrow)" in (tmp_path / "ten" / "README.md").read_text()


def test_what_is_no_name_of_a_panel_is_one_line(loaded):
    said = {3: "a name, panel or hundred or ten, not 3", "": "panel : this model", "TEN": "did you mean ten?"}
    for name, words in said.items():
        with pytest.raises(CallError, match=words):
            loaded.on_panel(name)


def test_the_interval_is_chosen_from_the_command_line(uol, three, tmp_path):
    folder, image = tmp_path / "model", tmp_path / "one.png"
    three[0].save_pretrained(folder)
    Image.fromarray(PIXELS[0].transpose(1, 2, 0)).save(image)
    _, out, err = uol("score", image, "--model", folder, "--interval", "new-panel", "--json")
    (row,) = json.loads(out)
    assert "a panel that nobody has seen" in err
    expected = BaseScorer.from_pretrained(folder, interval="new-panel").score([image])[0]
    assert (row["low"], row["high"]) == pytest.approx((expected.low, expected.high))
    with pytest.raises(CallError, match="interval must be panel or new-panel"):
        BaseScorer.from_pretrained(folder, interval="wide")
