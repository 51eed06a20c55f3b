"""Scorer: the same answer however it is asked, intervals, ranks, comparisons, other panels."""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest
import torch
from PIL import Image

from quick import quick_recipe
from uol import Score
from uol.errors import CallError, ImageError
from uol.order.config import ScoringConfig
from uol.runs.run import run
from uol.scoring.ahead import answered, one_ahead
from uol.scoring.base import rank_with_ties
from uol.scoring.scorer import Scorer
from uol.training.packed import PackedImages


@pytest.fixture(scope="session")
def scorer(trained):
    return trained.scorer


def values(scores):
    return [score.value for score in scores]


def test_paths_images_and_arrays_give_the_same_scores(scorer, drawn, image_files):
    paths = sorted(image_files.iterdir())
    expected = values(scorer.score(paths))
    assert values(scorer.score([str(path) for path in paths])) == expected
    assert values(scorer.score([Image.open(path) for path in paths])) == expected
    assert values(scorer.score(drawn.images[:10])) == expected
    assert values(scorer.score(paths[3])) == pytest.approx(expected[3:4], abs=1e-4)


@pytest.mark.parametrize("samples", [0, 5])
def test_a_score_does_not_depend_on_its_neighbours(scorer, drawn, samples):
    asked = Scorer(
        scorer.model, scorer.references, scorer.panel, scorer.bradley_terry, scorer.calibration,
        ScoringConfig(samples=samples),
    )  # fmt: skip
    together = values(asked.score(drawn.images[:7], batch_size=3))
    assert together == pytest.approx([values(asked.score(image))[0] for image in drawn.images[:7]], abs=1e-4)
    assert values(asked.score(drawn.images[:7])) == pytest.approx(together, abs=1e-4)


def test_scores_and_intervals_are_on_the_panels_scale(scorer, drawn):
    for score in scorer.score(drawn.images):
        assert 1 <= score.low <= score.value <= score.high <= 5
        assert score.dispersion > 0
        assert score.standard_error > 0


def test_scoring_equals_the_methods_predictions(trained, drawn):
    predictions = trained.predict(PackedImages.pack(drawn, trained.recipe.model).centre)
    assert values(trained.scorer.score(drawn.images)) == pytest.approx(predictions.value, abs=1e-4)


@pytest.mark.parametrize("mirror", [False, True])
def test_what_is_begun_is_what_is_embedded_and_scored(scorer, drawn, mirror):
    asked = Scorer(
        scorer.model, scorer.references, scorer.panel, scorer.bradley_terry, scorer.calibration,
        ScoringConfig(mirror=mirror),
    )  # fmt: skip
    pixels = asked.framed(drawn.images[:40])
    expected = values(asked.score_embedded(asked.embed_pixels(torch.from_numpy(pixels))))
    assert values(asked.score_pixels(pixels)) == pytest.approx(expected, abs=1e-4)  # 32 at once, and the rest
    first, second = asked.submit(list(pixels[:30])), asked.submit(list(pixels[30:]))
    assert values([*first(), *second()]) == pytest.approx(expected, abs=1e-4)


def test_the_next_is_begun_before_an_answer_is_waited_for():
    events = []

    def begin(k):
        events.append(f"begin {k}")
        return lambda: events.append(f"wait {k}") or k

    assert list(one_ahead(map(begin, range(3)))) == [0, 1, 2]
    assert events == ["begin 0", "begin 1", "wait 0", "begin 2", "wait 1", "wait 2"]
    assert list(one_ahead([])) == []


def test_answers_are_made_in_another_thread_and_given_in_order():
    unanswered, most, threads = 0, 0, set()

    def begin(k):
        nonlocal unanswered, most
        unanswered += 1
        most = max(most, unanswered)

        def wait():
            nonlocal unanswered
            threads.add(threading.current_thread())
            unanswered -= 1
            return k

        return wait

    assert list(answered(map(begin, range(20)), ahead=2)) == list(range(20))
    assert most <= 3
    assert len(threads) == 1
    assert threading.current_thread() not in threads
    assert list(answered([])) == []


def test_comparisons_sum_to_one_and_mirror(scorer, drawn):
    forth, back = scorer.compare(drawn.images[0], drawn.images[1]), scorer.compare(drawn.images[1], drawn.images[0])
    assert sum(forth) == pytest.approx(1)
    assert forth == pytest.approx(back[::-1], abs=1e-5)
    itself = scorer.compare(drawn.images[0], drawn.images[0])
    assert itself.less == pytest.approx(itself.greater, abs=1e-5)


def test_ranks(scorer, drawn):
    ranking = scorer.rank(drawn.images[:12])
    assert sorted(place.index for place in ranking) == list(range(12))
    assert values(place.score for place in ranking) == sorted(values(p.score for p in ranking), reverse=True)
    assert ranking[0].rank == 1


def test_ties_where_intervals_overlap_the_best_of_the_rank():
    def score(low, high):
        return Score((low + high) / 2, low, high, 0.5, 0.1)

    scores = [score(4.0, 5.0), score(3.6, 4.2), score(3.0, 3.8), score(2.9, 3.1), score(1.0, 2.0)]
    assert rank_with_ties(scores) == [1, 1, 3, 3, 5]
    assert rank_with_ties([]) == []


@pytest.mark.filterwarnings("ignore:intervals. far too narrow")
def test_hard_outcomes_and_probabilities_agree_roughly(scorer, drawn):
    hard = Scorer(
        scorer.model, scorer.references, scorer.panel, scorer.bradley_terry, scoring=ScoringConfig(outcomes="hard")
    )
    soft = Scorer(scorer.model, scorer.references, scorer.panel, scorer.bradley_terry)
    assert np.corrcoef(values(hard.score(drawn.images)), values(soft.score(drawn.images)))[0, 1] > 0.5


def test_anchoring_keeps_the_order_and_takes_the_scale(scorer, drawn, drawn_b):
    anchored = scorer.anchor(drawn_b.subset(np.arange(40)))
    assert anchored.panel.scale == (1, 10)
    assert len(anchored.references) == 40
    scores = values(anchored.score(drawn.images[40:]))
    assert min(scores) >= 1
    assert max(scores) <= 10
    assert abs(np.mean(scores) - drawn_b.scores[40:].mean()) < 1
    assert anchored.calibration.images == 40
    assert len(anchored.leave_one_out()) == 40
    assert anchored.model is scorer.model


def test_leaving_one_out_leaves_out_the_image_itself(scorer, drawn_b):
    part = drawn_b.subset(np.arange(15))
    anchored = scorer.anchor(part)
    raw = anchored.raw_estimates(anchored.references.gaussians, leave_one_out=True).value
    others = np.arange(15) != 4
    from uol.order import bradley_terry

    outcomes = anchored.outcomes(anchored.references.gaussians)[4:5, others]
    alone = bradley_terry.estimate(outcomes, part.scores[others], anchored.bradley_terry, (1, 10))
    assert raw[4] == pytest.approx(alone.value[0])


def test_too_few_anchors_and_no_images(scorer, drawn_b):
    with pytest.raises(CallError, match="at least 10"):
        scorer.anchor(drawn_b.subset(np.arange(9)))
    with pytest.raises(CallError, match="no images"):
        scorer.score([])
    with pytest.raises(ImageError, match="no such image file"):
        scorer.score(["nowhere.jpg"])


def test_errors_take_the_place_of_scores(scorer, drawn, tmp_path):
    closed = Image.fromarray(drawn.images[1])
    closed.close()
    (tmp_path / "cut.png").write_bytes(b"\x89PNG")
    images = [drawn.images[0], "nowhere.jpg", closed, tmp_path / "cut.png", drawn.images[2], np.zeros((4, 4)), None]
    answers = scorer.score(images, batch_size=2, errors="return")
    assert values([answers[0], answers[4]]) == pytest.approx(values(scorer.score([drawn.images[0], drawn.images[2]])))
    assert all(isinstance(answers[k], ImageError) for k in (1, 2, 3, 5, 6))
    assert str(answers[1]) == "nowhere.jpg: no such image file"
    assert str(answers[2]).startswith("image 2: not a readable image")
    assert "image 5: an image array must be uint8" in str(answers[5])
    ranked = scorer.rank(images, errors="return")
    assert sorted(place.index for place in ranked[:2]) == [0, 4]
    assert [(place.index, str(place.error)) for place in ranked[2:]] == [(k, str(answers[k])) for k in (1, 2, 3, 5, 6)]
    with pytest.raises(ImageError, match="nowhere.jpg: no such"):
        scorer.score(images)
    with pytest.raises(CallError, match='errors must be "raise" or "return"'):
        scorer.score(images, errors="ignore")


@pytest.mark.parametrize("images", [None, 3, b"photo.jpg", {"photo.jpg": 1}, object()])
def test_what_is_no_image_is_refused(scorer, images):
    with pytest.raises(CallError, match="images are paths, PIL images or uint8 arrays"):
        scorer.score(images)


def test_comparisons_are_as_sure_as_held_out_images_show(trained, drawn):
    packed = PackedImages.pack(drawn, trained.scorer.config)
    gaussians = trained.scorer.embed_pixels(packed.centre)
    scorer = trained.scorer.anchor_embedded(drawn, gaussians)
    assert scorer.calibration.temperature != 1
    told = scorer.outcomes(gaussians.rows(slice(0, 1)), gaussians.rows(slice(1, 2)))[0, 0]
    softened = told ** (1 / scorer.calibration.temperature)
    found = scorer.compare_pixels(packed.centre[0], packed.centre[1])
    assert list(found) == pytest.approx(softened / softened.sum(), abs=1e-6)
    few = trained.scorer.anchor_embedded(drawn.subset(np.arange(12)), gaussians.rows(slice(0, 12)))
    assert few.calibration.temperature == trained.scorer.calibration.temperature


@pytest.fixture(scope="module")
def telling(drawn):
    """A scorer of a model that tells the panel's histograms too."""
    recipe = quick_recipe(histogram_weight=1.0).with_changes({"model.levels": 5})
    return run(PackedImages.pack(drawn, recipe.model), recipe, accelerator="cpu").scorer


def test_histograms_have_their_share_in_scores(telling, drawn):
    pixels = torch.from_numpy(telling.framed(drawn.images[:9]))
    gaussians = telling.embed_pixels(pixels)
    with torch.inference_mode():
        shares = telling.model.levels(gaussians.mean).softmax(-1).numpy().astype(np.float64)
    told = shares @ np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    compared = copy.copy(telling)
    compared.scoring = telling.scoring.model_copy(update={"histogram_share": 0.0})
    assert compared.levels(gaussians) is None
    alone = compared.raw_estimates(gaussians)
    both = telling.raw_estimates(gaussians)
    assert np.allclose(both.value, (alone.value + told) / 2, atol=1e-5)
    assert np.array_equal(both.standard_error, alone.standard_error)
    scores = [score.value for score in telling.score_pixels(pixels)]
    assert scores == pytest.approx([score.value for score in telling.score_embedded(gaussians)], abs=1e-4)
    assert scores == pytest.approx(telling.calibration.value(both.value, (1, 5)), abs=1e-4)


def test_histograms_of_one_panel_have_no_part_in_anothers_scores(telling, drawn, drawn_b):
    anchored = telling.anchor(drawn_b)
    assert anchored.scoring.histogram_share == 0
    assert anchored.levels(anchored.references.gaussians) is None
    plain = copy.copy(telling)
    plain.scoring = anchored.scoring
    assert [s.standard_error for s in plain.leave_one_out()] == [s.standard_error for s in telling.leave_one_out()]
    assert [s.value for s in plain.leave_one_out()] == [s.value for s in telling.leave_one_out()]


def test_a_model_that_tells_histograms_is_kept_with_them(telling, drawn, tmp_path):
    telling.save_pretrained(tmp_path / "model")
    again = Scorer.from_pretrained(tmp_path / "model")
    assert again.config.levels == 5
    assert [s.value for s in again.score(drawn.images[:4])] == pytest.approx(
        [s.value for s in telling.score(drawn.images[:4])], abs=1e-6
    )


def test_embedding_and_exact_scores_report_progress(trained, drawn, monkeypatch):
    from uol.scoring import base

    monkeypatch.setattr(base, "_BETWEEN_REPORTS", 16)
    said: list[tuple[int, int]] = []
    trained.scorer.embed(drawn.images[:40], 16, lambda *done: said.append(done))
    assert said == [(16, 40), (32, 40), (40, 40)]
    said.clear()
    pixels = trained.scorer.framed(drawn.images[:40])
    scores = trained.scorer.score_exactly(pixels, lambda *done: said.append(done))
    assert said == [(16, 40), (32, 40), (40, 40)]
    values = [score.value for score in trained.scorer.score_exactly(pixels)]
    np.testing.assert_allclose([score.value for score in scores], values, atol=1e-5)
