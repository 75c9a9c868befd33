"""How Sphinx makes the site; tools/build_site.py lays out its source and calls it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "Load, then wrap"
author = "Load, then wrap contributors"
copyright = author

extensions = ["myst_nb", "from_notebooks", "offline_math"]
exclude_patterns = ["README.md"]  # other pages include parts of it
nitpicky = True
smartquotes = False

# The outputs are those that were committed: building the site runs nothing.
nb_execution_mode = "off"
nb_code_prompt_show = "What happened: predict first, then open"
nb_code_prompt_hide = "What happened"
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

# `make site-links` alone asks other sites; a page of torch's API makes its anchors in the browser.
linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_anchors = False

html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_math_renderer = "offline"
pygments_style = "default"
pygments_dark_style = "github-dark"
