"""Mathematics as MathML, which browsers draw without scripts."""

import html
import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict:
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(translator, node: nodes.math) -> None:
    translator.body.append(_converted(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(translator, node: nodes.math_block) -> None:
    names = "".join(f' id="{html.escape(name)}"' for name in node.get("ids", [])[:1])
    translator.body.append(f'<div class="equation"{names}>{_converted(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def _converted(latex: str, display: str) -> str:
    # A bar inside of a row is taken for an operator with space on both sides; here bars are those of |x|.
    return re.sub(
        r'<mo((?: fence="false"| stretchy="false")*)>(&#x0007C;|&#x02016;)',
        r'<mo\1 lspace="0" rspace="0">\2',
        convert(latex.strip(), display=display),
    )
