#include "paceline/app/cli/shared/text.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "paceline/core/base/check.h"
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

std::size_t terminal_columns(std::size_t otherwise) {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
  return size.ws_col;
}

std::string in_columns(const std::vector<std::vector<std::string>>& lines,
                       const std::vector<std::size_t>& right) {
  std::vector<std::size_t> widths(lines.empty() ? 0 : lines.front().size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool is_right = std::ranges::find(right, i) != right.end();
      row += is_right ? fmt::format("{:>{}}  ", line[i], widths[i])
                      : fmt::format("{:<{}}  ", line[i], widths[i]);
    }
    text += row.substr(0, row.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

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

void write_output(std::string_view option, const std::string& file, std::string_view text) {
  if (file == "-") return fmt::print("{}", text);
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  PACELINE_CHECK(out.good(), "{}: {} cannot be written; give a file that can, or - for stdout",
                 option, file);
}

}  // namespace paceline::cli
