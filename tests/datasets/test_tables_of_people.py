"""Tables as people have them: each gives the right means, or one clear line; none is read wrongly in silence."""

from __future__ import annotations

import numpy as np
import openpyxl
import pandas as pd
import pyreadstat
import pytest

from uol.datasets.own import load_own
from uol.errors import UolError

IMAGES = [f"face_{k:02}" for k in range(12)]
RATERS = [f"p{k}" for k in range(8)]
RANDOM = np.random.default_rng(7)
MATRIX = np.clip(np.round(RANDOM.normal(4, 1.5, (12, 8))), 1, 7)
MATRIX[0, :2], MATRIX[5, 3] = [1, 7], np.nan
MEANS = np.nanmean(MATRIX, axis=1)

LONG = pd.DataFrame(
    [(image, rater, MATRIX[i, j]) for i, image in enumerate(IMAGES) for j, rater in enumerate(RATERS)],
    columns=["image", "rater", "rating"],
).dropna()
LONG["rating"] = LONG["rating"].astype(int)
WIDE = pd.DataFrame(MATRIX, columns=RATERS).astype("Int64").assign(image=IMAGES)[["image", *RATERS]]
SUMMARY = pd.DataFrame({"image": IMAGES, "mean": MEANS, "sd": np.nanstd(MATRIX, axis=1, ddof=1), "n": 8})
SHAPES = {
    "long": LONG,
    "wide": WIDE,
    "summary": SUMMARY,
    "turned": WIDE.set_index("image").T.rename_axis("rater").reset_index(),
}
LANGUAGES = {
    "en": "image_name,participant,response", "de": "Bildname,Versuchsperson,Bewertung",
    "fr": "fichier,évaluateur,réponse",
    "es": "imagen,participante,puntuación", "it": "immagine,partecipante,punteggio", "pt": "imagem,avaliador,avaliação",
    "nl": "afbeelding,proefpersoon,beoordeling", "ru": "изображение,участник,оценка", "zh": "图片,被试,评分",
    "ja": "画像,評価者,評定", "ko": "이미지,평가자,점수",
}  # fmt: skip


def text(frame, **options):
    return frame.to_csv(index=False, lineterminator="\n", **options)


def coded(code, share=0.05):
    table = LONG.copy()
    table.loc[table.sample(frac=share, random_state=1).index, "rating"] = code
    return table


def commas(frame):
    return text(frame, sep=";", decimal=",")


def xlsx(change):
    def write(path):
        book = openpyxl.Workbook()
        change(book.active, book)
        book.save(path)

    return write


def fill(sheet, frame, first=1):
    for row, cells in enumerate([list(frame), *frame.itertuples(index=False, name=None)], first):
        for column, cell in enumerate(cells, 1):
            sheet.cell(row, column, None if pd.isna(cell) else cell)


def titled(sheet, _):
    sheet["A1"] = "Study 3: ratings of faces"
    sheet.merge_cells("A1:C1")
    fill(sheet, LONG, 3)


def merged(sheet, _):
    fill(sheet, LONG)
    names = [None, None, *LONG["image"]]
    for image in IMAGES:
        rows = [row for row, name in enumerate(names) if name == image]
        for row in rows[1:]:
            sheet.cell(row, 1).value = None
        sheet.merge_cells(start_row=rows[0], end_row=rows[-1], start_column=1, end_column=1)


def formulas(sheet, _):
    fill(sheet, WIDE)
    sheet["J1"] = "mean"
    for row in range(2, 14):
        sheet[f"J{row}"] = f"=AVERAGE(B{row}:I{row})"


def only_formulas(sheet, _):
    for row, cells in enumerate([("image", "mean"), *((image, f"=1+{k}/4") for k, image in enumerate(IMAGES))], 1):
        sheet.cell(row, 1, cells[0])
        sheet.cell(row, 2, cells[1])


def second_sheet(sheet, book):
    sheet["A1"] = "read me"
    sheet["B1"] = "first"
    fill(book.create_sheet("data"), LONG)


def as_text(sheet, _):
    fill(sheet, LONG.assign(rating=LONG["rating"].astype(str)))


def ods(frame):
    return lambda path: frame.to_excel(path, index=False, engine="odf")


def spss(frame, **options):
    return lambda path: pyreadstat.write_sav(frame.reset_index(drop=True), path, **options)


def in_bytes(content):
    return lambda path: path.write_bytes(content)


def case(name, content, expected=None, **options):
    """A file's name, what is in it or who writes it, what is expected (means, or a pattern of the error), settings."""
    write = content if callable(content) else in_bytes(content if isinstance(content, bytes) else content.encode())
    return pytest.param(name, write, MEANS if expected is None else expected, options, id=f"{case.number()}-{name}")


counter = iter(range(1, 1000))
case.number = lambda: next(counter)
ASKS = r"--read missing={}, .*--scale"
DOUBLE = pd.concat([LONG, LONG.head(5)])
CONTRADICTORY = pd.concat([LONG, LONG.head(3).assign(rating=8 - LONG["rating"].head(3))])
BLANK = pd.concat([LONG, pd.DataFrame({"image": ["", None], "rater": "p1", "rating": 3})])
SPSS = LONG.assign(rating=LONG["rating"].astype(float))
THREE_DIGITS = SUMMARY[["image"]].assign(mean=[f"{mean:.3f}".replace(".", ",") for mean in MEANS])
BRIGHT = WIDE.assign(brightness=range(90, 102))
WITH_99 = pd.concat([SPSS, SPSS.head(4).assign(rater="p9", rating=99.0)])

CASES = [
    *(case("t.csv", text(frame)) for frame in SHAPES.values()),
    *(case("t.csv", commas(frame)) for frame in SHAPES.values()),
    *(case("t.tsv", text(frame, sep="\t")) for frame in SHAPES.values()),
    *(case("t.txt", text(frame, sep="|")) for frame in SHAPES.values()),
    *(case("t.csv", text(frame).encode("utf-16")) for frame in SHAPES.values()),
    case("t.txt", text(LONG, sep="\t").encode("utf-16-le")),
    case("t.csv", text(LONG).encode("utf-8-sig")),
    case("t.csv", text(WIDE).replace("\n", "\r\n")),
    case("t.csv", text(WIDE).replace("\n", "\r")),
    case("t.csv", "sep=;\n" + commas(SUMMARY)),
    *(case("t.csv", text(LONG).replace("image,rater,rating", names)) for names in LANGUAGES.values()),
    case("t.csv", text(LONG, sep=";").replace("image;rater;rating", "Bild;Prüfer;Größe").encode("cp1252"),
         rater="Prüfer", rating="Größe"),
    case("t.csv", text(LONG).replace("image,rater,rating", LANGUAGES["ru"]).encode("cp1251")),
    case("t.csv", text(LONG).replace("image,rater,rating", LANGUAGES["zh"]).encode("gb18030")),
    case("t.csv", text(LONG).replace("image,rater,rating", LANGUAGES["ja"]).encode("shift_jis")),
    case("t.csv", text(LONG).replace("image,rater,rating", "画像,p,r").encode("shift_jis"), rater="p", rating="r",
         encoding="shift_jis"),
    case("t.csv", "Study 3\nmade in May\n\n" + text(LONG)),
    case("t.csv", "# exported, by hand, 3 May\n" + text(WIDE)),
    case("t.csv", "Date:,2024-05-03\n" + text(WIDE)),
    case("t.csv", text(WIDE).replace("\n", "\n\n")),
    case("t.csv", text(WIDE).replace("\n", ",,\n")),
    case("t.csv", text(THREE_DIGITS, sep=";"), MEANS.round(3)),
    case("t.csv", text(THREE_DIGITS), "decimal=comma"),
    case("t.csv", text(THREE_DIGITS), MEANS.round(3), decimal="comma"),
    *(case("t.csv", text(coded(code)), ASKS.format(code)) for code in (-999, -99, -9, -1, 0, 9, 55, 88, 99, 999)),
    case("t.csv", text(coded(99, 0.4)), ASKS.format(99)),
    case("t.csv", text(WIDE.fillna(99)), ASKS.format(99)),
    case("t.csv", text(WIDE.fillna(99)), missing=[99]),
    case("t.csv", text(WIDE.fillna(99)), "not within the scale 1 to 7.*--read missing=99", scale=(1, 7)),
    case("t.csv", text(WIDE.astype(object).fillna("k.A.")), "'k.A.' in column p3 is not a number"),
    case("t.csv", text(WIDE.astype(object).fillna("k.A.")), missing=["k.A."]),
    case("t.csv", text(WIDE.astype(object).fillna("-"))),
    case("t.csv", text(SUMMARY.assign(mean=[*MEANS[:-1], 99])), ASKS.format(99)),
    case("t.csv", text(BRIGHT), "column brightness has 90 to 101.*--read groups=brightness"),
    case("t.csv", text(BRIGHT), groups=["brightness"]),
    case("t.csv", text(DOUBLE)),
    case("t.csv", text(CONTRADICTORY), r"rows 2 and 97: p0 rated .*--read repeats=mean"),
    case("t.csv", text(CONTRADICTORY), None, repeats="first"),
    case("t.csv", text(BLANK)),
    case("t.csv", text(pd.concat([WIDE, WIDE.head(1)]))),
    case("t.csv", text(LONG.assign(rater=["", *LONG["rater"].iloc[1:]])), "row 2: no rater"),
    case("t.csv", text(LONG).replace("face_00,p0,1\n", "face_00,p0,1,5\n"), "row 2 has 4 cells"),
    case("t.csv", text(LONG).replace("face_00,p0,1", '"face_00,p0,1'), "cannot be read"),
    case("t.csv", text(LONG).replace("p0,1\n", "p0,1_1\n"), "'1_1' .*not a number"),
    case("t.csv", text(LONG).encode() + b"\0\0", "no text"),
    case("t.parquet", lambda path: LONG.to_parquet(path)),
    *(case("t.xlsx", lambda path, frame=frame: frame.to_excel(path, index=False)) for frame in SHAPES.values()),
    *(case("t.ods", ods(frame)) for frame in SHAPES.values()),
    *(case("t.xlsx", xlsx(change)) for change in (titled, merged, as_text)),
    case("t.xlsx", xlsx(formulas), "formula without its result"),
    case("t.xlsx", xlsx(only_formulas), "formula without its result"),
    case("t.xlsx", xlsx(second_sheet), sheet="data"),
    case("t.xlsx", xlsx(second_sheet), "no sheet 'more'; there are Sheet, data", sheet="more"),
    case("t.sav", spss(SPSS)),
    case("t.sav", spss(WITH_99, missing_ranges={"rating": [99]})),
    case("t.sav", spss(WITH_99, variable_value_labels={"rating": {1.0: "ugly", 99.0: "no answer"}})),
    case("t.sav", spss(WITH_99), ASKS.format(99)),
    case("t.sav", b"no SPSS", "cannot be read as a .sav table"),
    case("t.ods", b"no sheet", "cannot be read as a .ods table"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("faces")
    for name in IMAGES:
        (root / f"{name}.jpg").touch()
    return root


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("name", "write", "expected", "options"), CASES)
def test_right_numbers_or_one_clear_line(folder, tmp_path, name, write, expected, options):
    write(tmp_path / name)
    if isinstance(expected, str):
        with pytest.raises(UolError, match=expected) as caught:
            load_own(folder, tmp_path / name, **options)
        assert "\n" not in str(caught.value)
        return
    rated = load_own(folder, tmp_path / name, **options)
    found = pd.Series(rated.scores, [image.removesuffix(".jpg") for image in rated.names])
    np.testing.assert_allclose(found[IMAGES], expected, atol=1e-6)
    assert len(rated) == 12
    assert rated.scale == ((1, 5) if rated.notes[0].startswith("read as a summary") else (1, 7))  # of means


def test_what_was_left_out_is_counted(folder, tmp_path):
    file = tmp_path / "t.csv"
    more = pd.DataFrame({"image": ["gone", "gone", "face_00"], "rater": ["p1", "p2", "p9"], "rating": [3, 3, None]})
    file.write_text("Study 3\n" + text(pd.concat([DOUBLE, BLANK.tail(2), more])))
    notes = " | ".join(load_own(folder, file).notes)
    for words in (
        "passed over: 1 row above the header: Study 3",
        "left out: 2 of 105 rows, with the images that have no file",
        "left out: 2 rows without an image in column image",
        "left out: 1 row without a rating",
        "5 repetitions of an image and its rater with the same ratings: counted once",
    ):
        assert words in notes


def test_repeated_ratings_count_as_the_user_says(folder, tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("image,rater,rating\nface_00,a,1\nface_00,a,5\nface_00,b,3\n")
    scores = {how: load_own(folder, file, repeats=how).scores[0] for how in ("mean", "first", "last")}
    assert scores == {"mean": 3, "first": 2, "last": 4}
    with pytest.raises(UolError, match="repeats=all: choose from mean, first, last"):
        load_own(folder, file, repeats="all")
