# SPDX-License-Identifier: BSD-2-Clause
"""How Sphinx makes HTML of what tools/gen-html lays out; see `make docs`."""
import os

project = 'libiwarp'
copyright = 'the libiwarp authors'
release = version = os.environ.get('VERSION', '')
extensions = ['myst_parser']
master_doc = 'index'
myst_heading_anchors = 4
# Pages of manuals have no heading of the first level but their name, and code blocks without a language.
suppress_warnings = ['myst.header', 'misc.highlighting_failure']
highlight_language = 'none'
html_theme = 'furo'
html_title = f'libiwarp {version}'
html_copy_source = False
html_show_sphinx = False
html_theme_options = {'navigation_with_keys': True}
