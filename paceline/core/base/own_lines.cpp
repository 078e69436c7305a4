#include "paceline/core/base/own_lines.h"

#include <atomic>
#include <cstdio>
#include <string>

namespace paceline {
namespace {

// stderr is the whole process's, and so is this.
std::atomic<OwnLines> wanted_lines = OwnLines::info;

void write_own_line(std::string_view text) {
  const std::string line = "paceline: " + std::string(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

std::optional<OwnLines> own_lines_of(std::string_view text) {
  if (text == "quiet") return OwnLines::quiet;
  if (text == "info") return OwnLines::info;
  if (text == "debug") return OwnLines::debug;
  return std::nullopt;
}

void set_own_lines(OwnLines wanted) {
  wanted_lines = wanted;
}

void warn(std::string_view text) {
  write_own_line(text);
}
void inform(std::string_view text) {
  if (wanted_lines != OwnLines::quiet) write_own_line(text);
}
void inform_debug(std::string_view text) {
  if (wanted_lines == OwnLines::debug) write_own_line(text);
}

}  // namespace paceline
