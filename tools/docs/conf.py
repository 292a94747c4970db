"""Sphinx's settings for the site. build.py puts this file beside the pages."""

project = 'GT'
author = 'The GT authors'
project_copyright = 'The GT authors'
extensions = ['myst_parser']
source_suffix = {'.md': 'markdown', '.rst': 'restructuredtext'}
root_doc = 'index'

myst_enable_extensions = ['html_image']
myst_heading_anchors = 4  # links as on other viewers of Markdown: page.md#a-heading
default_role = 'code'
highlight_language = 'none'  # fences without a language are output, not programs
add_module_names = False
toc_object_entries = False  # two thousand functions would fill the side bar

html_theme = 'furo'
html_title = 'GT'
html_static_path = ['_static']
html_css_files = ['site.css']
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {'navigation_with_keys': True}
