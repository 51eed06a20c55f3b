"""uol study: collect ratings and votes, and get a scale with intervals."""

from __future__ import annotations

import typer

from uol.cli import study_serve

app = typer.Typer(help="Collect ratings and votes on a page, and get a scale with intervals.", no_args_is_help=True)
app.command("serve")(study_serve.serve)
app.command("forget")(study_serve.forget)
