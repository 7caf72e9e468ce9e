"""The tutorials as notebooks to download."""

from pathlib import Path

import nbformat
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from plain_markdown import numbers_of_papers, plain
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict:
    """Write the notebooks before the sources are read."""
    app.connect("builder-inited", lambda app: write_notebooks(Path(app.srcdir)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_notebooks(source: Path) -> None:
    """Write one .ipynb without outputs for each tutorial into _build/extra/notebooks."""
    folder = source / "_build" / "extra" / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    mathematics = MdParserConfig(enable_extensions={"dollarmath", "amsmath", "colon_fence"})
    papers = numbers_of_papers((source / "references.bib").read_text("utf-8"))
    for page in sorted((source / "tutorials").glob("*.md")):
        if page.stem == "index":
            continue
        notebook = read_myst_markdown_notebook(page.read_text("utf-8"), mathematics)
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{number}"  # random by default, and the file would change with every build
            if cell["cell_type"] == "markdown":
                cell["source"] = plain(cell["source"], page, papers)
        nbformat.write(notebook, folder / f"{page.stem}.ipynb")
