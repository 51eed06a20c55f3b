from __future__ import annotations

import pytest

from uol.datasets.color_feret import load_color_feret
from uol.errors import CallError, UolError


def touch(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()


@pytest.fixture
def discs(tmp_path):
    """Two people on two discs, in the official layout."""
    root = tmp_path / "colorferet"
    for size in ("images", "smaller", "thumbnails"):
        for disc, name in (
            ("dvd1", "00001_930831_fa_a"),
            ("dvd1", "00001_930831_fb_a"),
            ("dvd1", "00001_930831_pl"),
            ("dvd1", "00001_940128_fa"),
            ("dvd2", "00740_941201_fa"),
            ("dvd2", "00740_941201_fb"),
        ):
            touch(root / disc / "data" / size / name[:5] / f"{name}.ppm.bz2")
    touch(root / "dvd2" / "gray_feret_cd1" / "data" / "images" / "00001fa010_930831.tif")
    text = root / "dvd1/data/ground_truths/name_value/00001/00001.txt"
    text.parent.mkdir(parents=True)
    text.write_text("id=cfrS00001\ngender=Male\nyob=1943\nrace=White\n")
    (text.parent / "00001_930831_fa_a.txt").write_text("id=cfrR00002\npose=fa\n")
    xml = root / "dvd2/data/ground_truths/xml/00740/00740.xml"
    xml.parent.mkdir(parents=True)
    xml.write_text(
        '<Subjects><Subject id="cfrS00740"><Gender value="Female"/><YOB value="1970"/><Race value="Asian"/>'
        "</Subject></Subjects>"
    )
    return root


def test_frontal_photographs_of_one_size_with_what_is_known_of_people(discs):
    images = load_color_feret(discs)
    assert [name.split(".")[0] for name in images.names] == [
        "00001_930831_fa_a",
        "00001_930831_fb_a",
        "00001_940128_fa",
        "00740_941201_fa",
        "00740_941201_fb",
    ]
    assert not images.rated
    assert {path.parent.parent.name for path in images.images} == {"images"}
    assert images.groups.iloc[0].to_dict() == {
        "person": "00001",
        "date": "930831",
        "pose": "fa",
        "gender": "male",
        "race": "white",
        "born": "1943",
    }
    assert images.groups.iloc[4]["gender"] == "female"
    assert images.notes == ("5 images are packed as .bz2, as on the discs",)


def test_poses_sizes_and_one_per_person(discs):
    assert set(load_color_feret(discs, poses=["fb"]).groups["pose"]) == {"fb"}
    thumbnails = load_color_feret(discs, size="thumbnails")
    assert {path.parent.parent.name for path in thumbnails.images} == {"thumbnails"}
    one = load_color_feret(discs, one_per_person=True)
    assert [name[:15] for name in one.names] == ["00001_930831_fa", "00740_941201_fa"]
    other = load_color_feret(discs, one_per_person=True, poses=("fb", "fa"))
    assert list(other.groups["pose"]) == ["fb", "fb"]


def test_unpacked_images_go_before_packed_ones(discs):
    touch(discs / "dvd2/data/images/00740/00740_941201_fa.ppm")
    images = load_color_feret(discs, poses=["fa"])
    assert images.names[-1] == "00740_941201_fa.ppm"
    assert len(images) == 3


def test_flat_folder_of_a_derivative(tmp_path):
    for name in ("00002_930831_fa.pgm", "00001_930831_fa_b.pgm", "00001_930831_fa_a.pgm", "notes.txt"):
        touch(tmp_path / name)
    images = load_color_feret(tmp_path)
    assert images.names == ["00001_930831_fa_a.pgm", "00001_930831_fa_b.pgm", "00002_930831_fa.pgm"]
    assert list(images.groups.columns) == ["person", "date", "pose"]


def test_wrong_options_and_damaged_ground_truth(discs):
    with pytest.raises(CallError, match="no size 'big': there are images, smaller, thumbnails"):
        load_color_feret(discs, size="big")
    with pytest.raises(CallError, match="poses must be among fa, fb, not pl"):
        load_color_feret(discs, poses=["pl"])
    (discs / "dvd2/data/ground_truths/xml/00740/00740.xml").write_text("<Subjects>")
    with pytest.raises(UolError, match="not readable as XML"):
        load_color_feret(discs)
