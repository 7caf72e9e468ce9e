"""What pictures are made of: style, projections, markers, views, tables, animation."""
