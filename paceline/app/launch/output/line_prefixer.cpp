#include "paceline/app/launch/output/line_prefixer.h"

#include <algorithm>
#include <utility>

namespace paceline::launch {
namespace {

constexpr std::string_view kGoesOn = " [paceline: this line goes on]";
constexpr std::string_view kGoingOn = "[paceline: the line goes on] ";

}  // namespace

LinePrefixer::LinePrefixer(Options options) : options_(std::move(options)) {
  options_.longest = std::max<std::size_t>(options_.longest, 1);
}

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
  if (!held_.empty() || in_pieces_ || is_open_) end_line({}, out);
}

void LinePrefixer::show(std::string& out) {
  if (held_.empty()) return;
  begin_line(out);
  append(held_, out);
  held_.clear();
  is_open_ = true;
}

void LinePrefixer::begin_line(std::string& out) {
  if (is_open_) return;
  is_redrawn_ = false;
  out += options_.prefix;
  if (options_.stamp) out += options_.stamp();
  if (in_pieces_) out += kGoingOn;
}

// The prefix is written when a byte follows a carriage return, since the line may end there.
void LinePrefixer::append(std::string_view text, std::string& out) {
  if (!options_.redraws) {
    out += text;
    return;
  }
  for (const char one : text) {
    if (is_redrawn_) out += options_.prefix;
    is_redrawn_ = one == '\r';
    out += one;
  }
}

void LinePrefixer::end_line(std::string_view rest, std::string& out) {
  // Most lines arrive whole and go straight from `rest` to `out`.
  if (held_.size() + rest.size() > options_.longest) {
    hold(rest, out);
    rest = {};
  }
  begin_line(out);
  append(held_, out);
  append(rest, out);
  out += '\n';
  held_.clear();
  in_pieces_ = is_open_ = false;
}

// A piece leaves only when a byte beyond it has come, so that a line of exactly `longest` bytes
// stays whole.
void LinePrefixer::hold(std::string_view bytes, std::string& out) {
  while (held_.size() + bytes.size() > options_.longest) {
    const auto fits = options_.longest - held_.size();
    begin_line(out);
    append(held_, out);
    append(bytes.substr(0, fits), out);
    out.append(kGoesOn) += '\n';
    bytes.remove_prefix(fits);
    held_.clear();
    in_pieces_ = true;
    is_open_ = false;
  }
  held_.append(bytes);
}

}  // namespace paceline::launch
