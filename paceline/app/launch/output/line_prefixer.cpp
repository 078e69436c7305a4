#include "paceline/app/launch/output/line_prefixer.h"

#include <algorithm>
#include <utility>

namespace paceline::launch {
namespace {

constexpr std::string_view kGoesOn = " [paceline: this line goes on]";
constexpr std::string_view kGoingOn = "[paceline: the line goes on] ";

}  // namespace

LinePrefixer::LinePrefixer(std::string prefix, std::size_t longest)
    : prefix_(std::move(prefix)), longest_(std::max<std::size_t>(longest, 1)) {}

void LinePrefixer::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    if (newline == std::string_view::npos) {
      hold(bytes, out);
      return;
    }
    end_line(bytes.substr(0, newline), out);
    bytes.remove_prefix(newline + 1);
  }
}

void LinePrefixer::finish(std::string& out) {
  if (!held_.empty() || in_pieces_) end_line({}, out);
}

void LinePrefixer::begin_line(std::string& out) {
  out += prefix_;
  if (in_pieces_) out += kGoingOn;
}

void LinePrefixer::end_line(std::string_view rest, std::string& out) {
  // Most lines arrive whole and go straight from `rest` to `out`.
  if (held_.size() + rest.size() > longest_) {
    hold(rest, out);
    rest = {};
  }
  begin_line(out);
  out.append(held_).append(rest) += '\n';
  held_.clear();
  in_pieces_ = false;
}

// A piece leaves only when a byte beyond it has come, so that a line of exactly `longest` bytes
// stays whole.
void LinePrefixer::hold(std::string_view bytes, std::string& out) {
  while (held_.size() + bytes.size() > longest_) {
    const auto fits = longest_ - held_.size();
    begin_line(out);
    out.append(held_).append(bytes.substr(0, fits)).append(kGoesOn) += '\n';
    bytes.remove_prefix(fits);
    held_.clear();
    in_pieces_ = true;
  }
  held_.append(bytes);
}

}  // namespace paceline::launch
