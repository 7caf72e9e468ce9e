"""The citation of the package, from its metadata."""

YEAR = 2026  # of the first release


def bibtex() -> str:
    """The entry of the installed version for BibTeX; CITATION.cff has the same title, authors and version.

    Examples
    --------
    >>> print(bibtex().splitlines()[1])
      title = {attnflow: self-attention dynamics},
    """
    from importlib.metadata import metadata

    facts = metadata("attnflow")
    subject = facts["Summary"].split(":")[0]
    fields = {
        "title": f"{facts['Name']}: {subject[0].lower()}{subject[1:]}",
        "author": f"{{{facts['Author']}}}",  # in two braces: one name, not first names and a last one
        "year": str(YEAR),
        "version": facts["Version"],
        "note": "Python package",
    }
    lines = [f"  {name} = {{{text}}}," for name, text in fields.items()]
    return "\n".join(["@software{attnflow,", *lines, "}"])
