"""Settings of the documentation; `make docs` builds it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE.parent / "src"), os.environ.get("PYTHONPATH")]))

# Notebooks run by a profile made here: nobody's own startup files take part, and the kernel prints errors alone.
PROFILE = HERE.parent / "build" / "ipython" / "profile_default"
PROFILE.mkdir(parents=True, exist_ok=True)
(PROFILE / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n", encoding="utf-8")
os.environ["IPYTHONDIR"] = str(PROFILE.parent)

import generate  # noqa: E402
import uol  # noqa: E402

project, author, version = "uol", "the authors of uol", uol.__version__
copyright = "the authors of uol; MIT for the code"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx_design", "sphinx_copybutton"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "notebooks")
nb_execution_timeout = 1800  # a cell; a busy machine is slow
nb_execution_raise_on_error = True
nb_output_stderr = "remove"  # progress and remarks of packages, with paths of the machine
nb_mime_priority_overrides = [("html", "text/html", 0)]

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    name: name.removeprefix("npt.")
    for name in ("npt.ArrayLike", "Floats", "Integers", "Booleans", "Bools", "Indices", "Pixels", "Images", "ImageLike")
}
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*"), ("py:obj", r".*\.Embedding")]  # types of signatures; pages use py:obj
autosummary_generate = True
add_module_names = False

html_theme = "pydata_sphinx_theme"
html_title = "uol"
html_static_path = ["static"]
html_css_files = ["style.css"]
html_favicon = str(HERE.parent / "src" / "uol" / "serve" / "page" / "icon.svg")
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "uol"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["purpose"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
html_context = {"default_mode": "auto"}
templates_path = ["templates"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


OUTSIDE = {  # files that are read in the repository, too, and their pages here
    "../results/README.md": "reference/generated/results.md",
    "../results/archive/README.md": "reference/generated/results-archive.md",
    **{
        f"../src/uol/released_models/{name}/README.md": f"reference/generated/{name}.md" for name in generate.released()
    },
}


def _link_pages(app: Any, name: str, source: list[str]) -> None:
    """Links to files outside the documentation become links to their pages."""
    for file, page in OUTSIDE.items():
        source[0] = source[0].replace(f"]({file}", f"]({page}")


def _as_restructured_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings have names in single backticks and plain * and |; reStructuredText wants them otherwise."""
    in_example = False
    for number, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if not in_example:
            parts = re.split(r"`+([^`]+)`+", line)
            parts[::2] = [re.sub(r"([*|])", r"\\\1", part) for part in parts[::2]]
            parts[1::2] = [f"``{part}``" for part in parts[1::2]]
            lines[number] = "".join(parts)


def _short_signature(app: Any, what: str, name: str, obj: Any, options: Any, signature: str, returns: str) -> Any:
    """Settings are listed on a page of their own: no signature of fifty names."""
    return ("", "") if hasattr(obj, "model_fields") else None


def _without_aliases(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what Python says of every field of a named tuple."""
    return True if (getattr(obj, "__doc__", "") or "").startswith("Alias for field number") else None


def setup(app: Any) -> None:
    """Write the pages that come from the code, then connect what links and docstrings need."""
    generate.write_pages(HERE / "reference" / "generated")
    app.connect("source-read", _link_pages)
    app.connect("autodoc-process-docstring", _as_restructured_text)
    app.connect("autodoc-process-signature", _short_signature)
    app.connect("autodoc-skip-member", _without_aliases)
