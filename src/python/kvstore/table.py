"""Rows that are shown as a table, by notebooks in HTML."""
from html import escape


class Table(list):
    """A list of dicts with the same fields."""

    def __repr__(self):
        if not self:
            return "(no rows)"
        rows = [list(self[0])] + [[str(v) for v in row.values()] for row in self]
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows)

    def _repr_html_(self):
        def line(cells, tag):
            return "<tr>" + "".join(f"<{tag}>{escape(str(c))}</{tag}>" for c in cells) + "</tr>"
        head = line(self[0], "th") if self else ""
        return f"<table>{head}{''.join(line(row.values(), 'td') for row in self)}</table>"
