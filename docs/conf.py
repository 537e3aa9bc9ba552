"""The documentation site: ``make docs`` builds it into ``docs/_build``, and the built pages need no network."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("MPLBACKEND", "Agg")

import multiform

project = "multiform"
author = "the multiform developers"
copyright = f"2026, {author}"
version = release = multiform.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
exclude_patterns = ["_build", "gallery_built/*.ipynb", "gallery_built/**/*.py", "gallery"]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

html_theme = "furo"
html_title = f"multiform {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections say it in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
templates_path = ["templates"]

sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": "gallery",
    "gallery_dirs": "gallery_built",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,  # that page would load its table's scripts from the network
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "capture_repr": (),
    "abort_on_example_error": True,
    "plot_gallery": "True",
}
# Pages that link out of the site, into the repository, are read there; here the link stays as it is written.
suppress_warnings = ["myst.xref_missing", "config.cache"]
