#include "paceline/app/cli/shared/page.h"

#include <fmt/format.h>

#include "paceline/core/observe/log_plot.h"

namespace paceline::cli {
namespace {

constexpr const char* kPageStyle = R"(
:root { color-scheme: light dark; --line: #d0d4d9; --bad: #c0271f }
@media (prefers-color-scheme: dark) { :root { --line: #3c4249; --bad: #ff7b72 } }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 74rem; margin: 2rem auto; padding: 0 1rem;
  background: Canvas; color: CanvasText }
h1 { font-size: 1.4rem }
dl { display: grid; grid-template-columns: max-content auto; gap: 0.1rem 1rem }
dt { opacity: 0.7 } dd { margin: 0 }
svg { max-width: 100%; height: auto; margin: 0.5rem 0 }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: 0.15rem 0.7rem; border-bottom: 1px solid var(--line); text-align: right }
.text { text-align: left }
.wrong { color: var(--bad); font-weight: bold }
)";

}  // namespace

std::string page(const std::string& title,
                 const std::vector<std::pair<std::string, std::string>>& facts,
                 const std::string& body) {
  using observe::escaped;
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<dl>\n",
      escaped(title), kPageStyle);
  for (const auto& [name, value] : facts)
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value));
  return html + "</dl>\n" + body + "</body>\n</html>\n";
}

}  // namespace paceline::cli
