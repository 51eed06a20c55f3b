"""Files that uol score and uol rank write: their own are written again, those of others are not lost."""

from __future__ import annotations

import pytest

COMMANDS = ("score", "rank")


@pytest.fixture
def call(uol, model_folder, image_files):
    image = sorted(image_files.iterdir())[0]
    return lambda command, *options: uol(command, image, "--model", model_folder, *options)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ratings.csv", "image,rater,rating\na.png,r1,4\n"),
        ("scores.csv", "image,face,value,low,high,dispersion,error,my notes\n"),
        ("config.json", '{"format": 3, "model": {}}\n'),
        ("list.jsonl", '["a.png"]\n'),
        ("table.parquet", "no Parquet"),
    ],
)
def test_a_file_of_another_kind_is_replaced_only_if_asked_for(call, tmp_path, command, name, text):
    path = tmp_path / name
    path.write_text(text)
    code, out, err = call(command, "--out", path)
    assert (code, out, path.read_text()) == (2, "", text)
    assert "--replace" in err
    code, _, err = call(command, "--out", path, "--replace")
    assert code == 0, err
    assert path.read_bytes() != text.encode()


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "parquet"])
def test_scores_and_rankings_are_written_again(call, tmp_path, suffix):
    path = tmp_path / f"scores.{suffix}"
    for command, *options in [("score",), ("score",), ("score", "--panel", "all"), ("rank",), ("score",)]:
        code, _, err = call(command, *options, "--out", path)
        assert code == 0, err


@pytest.mark.filterwarnings("default:.*will be replaced")
@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "parquet"])
def test_rows_of_other_images_are_replaced_with_a_warning(uol, model_folder, image_files, tmp_path, suffix):
    path, (one, two, *_) = tmp_path / f"scores.{suffix}", sorted(image_files.iterdir())
    said = f"{path}: rows of 1 other image in it will be replaced"
    for call, warned in [([one], False), ([one, two], False), ([two], True), ([one, "--replace"], False)]:
        code, _, err = uol("score", *call, "--model", model_folder, "--out", path)
        assert code == 0, err
        assert (said in err) == warned, call


@pytest.mark.parametrize("command", COMMANDS)
def test_parquet_without_its_package_is_refused_before_scoring(call, tmp_path, monkeypatch, command):
    monkeypatch.setattr("uol.storage.files.find_spec", lambda name: None)
    monkeypatch.setattr("uol.cli.score._score", lambda *_: pytest.fail("scored first"))
    code, _, err = call(command, "--out", tmp_path / "scores.parquet")
    assert (code, "pip install 'uol[data]'" in err) == (1, True)


@pytest.mark.parametrize("name", ["why.txt", "why.jpg"])
def test_an_explanation_is_a_png_file_or_a_folder(call, tmp_path, name):
    code, _, err = call("score", "--explain", tmp_path / name)
    assert (code, "pictures are PNG files" in err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_photograph_is_not_explained_over(uol, model_folder, image_files):
    image = sorted(image_files.iterdir())[0]
    before = image.read_bytes()
    for target in (image, image_files):
        code, _, err = uol("score", image, "--model", model_folder, "--explain", target)
        assert code == 2, err
    assert image.read_bytes() == before


def test_pages_and_pictures_of_others_are_not_replaced(uol, model_folder, image_files, tmp_path):
    photograph, pictures = sorted(image_files.iterdir())[0], tmp_path / "pictures"
    pictures.mkdir()
    theirs = [tmp_path / "their.html", tmp_path / "their.png", pictures / f"{photograph.stem}.png"]
    for path in theirs:
        path.write_bytes(b"somebody's")
    for words in (("rank", "--html", theirs[0]), ("score", "--explain", theirs[1]), ("score", "--explain", pictures)):
        code, _, err = uol(words[0], photograph, "--model", model_folder, *words[1:])
        assert (code, err.count("\n")) == (2, 1), err
        assert "exists, and was not written by uol; choose another name" in err
    assert all(path.read_bytes() == b"somebody's" for path in theirs)
    ours = tmp_path / "ours"
    for _ in range(2):
        assert uol("rank", photograph, "--model", model_folder, "--html", ours.with_suffix(".html"))[0] == 0
        assert uol("score", photograph, "--model", model_folder, "--explain", ours.with_suffix(".png"))[0] == 0
        assert uol("score", photograph, "--model", model_folder, "--explain", ours)[0] == 0


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_what_is_no_table_is_not_replaced(call, tmp_path, suffix):
    other = tmp_path / f"other.{suffix}"
    other.write_bytes(b"\xff" * 200_000)
    code, _, err = call("score", "--out", other)
    assert (code, err) == (
        2,
        f"uol: {other}: exists, and is no table of scores; choose another name, or use --replace\n",
    )
    assert other.read_bytes() == b"\xff" * 200_000


def test_a_table_with_a_name_that_is_no_text_is_replaced(uol, model_folder, image_files, tmp_path):
    image = tmp_path / b"odd-\xff.png".decode(errors="surrogateescape")
    image.write_bytes(sorted(image_files.iterdir())[0].read_bytes())
    for suffix in ("csv", "json", "parquet"):
        for _ in range(2):
            code, _, err = uol("score", image, "--model", model_folder, "--out", tmp_path / f"rows.{suffix}")
            assert (code, "will be replaced" in err) == (0, False), err
