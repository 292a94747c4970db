// page_texts.cc: each file of page/ is one C++ string literal, which meson.build makes of it.
#include "cli/http/page_texts.h"

static const char index_html[] =
#include "index.html.literal"
    ;
static const char style_css[] =
#include "style.css.literal"
    ;
static const char page_js[] =
#include "page.js.literal"
    ;
static const char timeline_js[] =
#include "timeline.js.literal"
    ;
static const char icon_svg[] =
#include "icon.svg.literal"
    ;

const gt_page_file gt__page_files[] = {
    {"/", "text/html; charset=utf-8", index_html, sizeof index_html - 1},
    {"/style.css", "text/css; charset=utf-8", style_css, sizeof style_css - 1},
    {"/page.js", "text/javascript; charset=utf-8", page_js, sizeof page_js - 1},
    {"/timeline.js", "text/javascript; charset=utf-8", timeline_js, sizeof timeline_js - 1},
    {"/icon.svg", "image/svg+xml", icon_svg, sizeof icon_svg - 1},
    {nullptr, nullptr, nullptr, 0},
};
