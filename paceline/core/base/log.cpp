#include "paceline/core/base/log.h"

#include <atomic>
#include <cstdio>
#include <string>

namespace paceline {
namespace {

// stderr is the whole process's, and so is this.
std::atomic<LogLevel> wanted_lines = LogLevel::info;

void write_own_line(std::string_view text) {
  const std::string line = "paceline: " + std::string(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

std::optional<LogLevel> log_level_of(std::string_view text) {
  if (text == "quiet") return LogLevel::quiet;
  if (text == "info") return LogLevel::info;
  if (text == "debug") return LogLevel::debug;
  return std::nullopt;
}

void set_log_level(LogLevel wanted) {
  wanted_lines = wanted;
}

void warn(std::string_view text) {
  write_own_line(text);
}
void log_info(std::string_view text) {
  if (wanted_lines != LogLevel::quiet) write_own_line(text);
}
void log_debug(std::string_view text) {
  if (wanted_lines == LogLevel::debug) write_own_line(text);
}

}  // namespace paceline
