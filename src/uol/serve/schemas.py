"""Requests and answers of the API, as OpenAPI describes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from uol.scoring.base import Interval

Finite = Annotated[float, Field(allow_inf_nan=False)]
Box = Annotated[list[Finite], Field(min_length=4, max_length=4, description="left, top, width, height in pixels")]


class Face(BaseModel):
    """A face: where it is in the upright image, the detector's confidence, and what is doubtful about it."""

    box: Box
    confidence: float
    problems: list[str]


class Figures(BaseModel):
    """A score on the scale of one panel."""

    value: float | None
    low: float | None
    high: float | None
    dispersion: float | None


class ScoreAnswer(BaseModel):
    """A row of `uol score --json`: the panel's expected mean, its interval, and the spread of single ratings."""

    image: str
    face: Face | None = Field(description="null if the model scores whole images")
    value: float | None = Field(description="null if `error` is set")
    low: float | None
    high: float | None
    dispersion: float | None = Field(description="expected standard deviation of single ratings")
    error: str | None
    panels: dict[str, Figures] = Field(default={}, description="the figures on each panel's scale, if all were asked")


class RankAnswer(ScoreAnswer):
    """A row of `uol rank --json`: images share a rank if their intervals overlap that of its best image."""

    rank: int | None
    tied: bool


class CompareAnswer(BaseModel):
    """What `uol compare --json` prints: probabilities that sum to 1."""

    first: str
    second: str
    less: float = Field(description="the panel rates the first image below the second")
    similar: float
    greater: float


class Histogram(BaseModel):
    """Scores of the references: `counts[i]` lie between `edges[i]` and `edges[i + 1]`."""

    edges: list[float]
    counts: list[int]


class Panel(BaseModel):
    """People who rated, and their scale."""

    name: str
    raters: str = Field(description="who they were")
    low: float
    high: float
    level: float = Field(description="how often an interval should include the panel's mean")
    references: Histogram


class Group(BaseModel):
    """How well a model agrees with a panel on the images of a group: correlation and mean error."""

    group: str
    images: int
    pc: float
    bias: float


class Weakness(BaseModel):
    """Groups of a data set on which a model agrees least with the panel."""

    heading: str
    groups: list[Group]


class Model(BaseModel):
    """A model that the service asks."""

    name: str
    framing: Literal["whole", "face"]
    loaded: bool
    explains: bool
    panels: list[Panel]
    weak: list[Weakness]
    limits: list[str] = Field(description="what the model card says about its limits")


class RequestLimits(BaseModel):
    """What a request may have, and how long its answer may take."""

    images: int
    image_bytes: int
    body_bytes: int
    pixels: int = Field(description="of an image")
    seconds: float = Field(description="for an answer")
    seconds_per_image: float | None = Field(
        description="what the model took here, by its last answers, null before the first: a request has a 504 if its "
        "images take longer than `seconds`"
    )


class ModelsAnswer(BaseModel):
    """The models, the limits of a request, and the version of the service."""

    version: str
    models: list[Model]
    limits: RequestLimits


class Problem(BaseModel):
    """Why a request was refused, in one line."""

    error: str


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ImageIn(_Strict):
    """An image file, encoded as base64."""

    name: str = Field(default="", max_length=1000, description="the name in the answer")
    data: str = Field(description="base64, or a data: URL")


class RankBody(_Strict):
    """Images as JSON, and how to score them."""

    images: list[ImageIn | str] = Field(min_length=1, description="objects with `name` and `data`, or base64 alone")
    panel: str | None = Field(default=None, max_length=200, description="a panel of the model; by default its first")
    all_faces: bool = Field(default=False, description="every face of a photograph, not the main one alone")
    interval: Interval = Field(
        default="panel", description="for this panel's mean, or for that of a panel that nobody has seen"
    )


class ScoreBody(RankBody):
    """Images as JSON, and how to score them; the panel `all` scores on the scale of each."""


class CompareBody(_Strict):
    """Two images as JSON."""

    images: list[ImageIn | str] = Field(min_length=2, max_length=2)
    panel: str | None = Field(default=None, max_length=200)


class ExplainBody(_Strict):
    """One image as JSON; `box` is the place of one of its faces, as a score's row reports it."""

    images: list[ImageIn | str] = Field(min_length=1, max_length=1)
    panel: str | None = Field(default=None, max_length=200)
    box: Box | None = None


def request_body(kind: type[BaseModel], panels: Sequence[str]) -> dict[str, Any]:
    """The OpenAPI description of a body that is JSON, or a form with the same fields and the images as files."""
    described = kind.model_json_schema(ref_template="#/components/schemas/{model}")
    described.pop("$defs", None)
    fields = described["properties"]
    names = {"type": "string", "enum": list(panels)}
    fields["panel"] = {**fields["panel"], "anyOf": [names, {"type": "null"}]}
    # A form has no null: what is left out, or empty, has its default.
    form = {name: _without_null(field) for name, field in fields.items()}
    file = {"type": "string", "format": "binary", "contentMediaType": "application/octet-stream"}
    files: dict[str, Any] = {"type": "array", "items": file}
    form["images"] = files | {key: value for key, value in fields["images"].items() if key in ("minItems", "maxItems")}
    return {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": {**described, "properties": form}},
                "application/json": {"schema": described},
            },
        }
    }


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}]
    if not kinds:
        return field
    return {**{key: value for key, value in field.items() if key not in ("anyOf", "default")}, **kinds[0]}
