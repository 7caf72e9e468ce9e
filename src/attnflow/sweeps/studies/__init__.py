"""Studies over grids: the atlas of value matrices, laws of the first tokens, validity of frozen attention."""
