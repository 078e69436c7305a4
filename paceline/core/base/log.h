// The lines that Paceline itself writes to stderr: "paceline: ...". Results and errors are not
// among them: those are values and exceptions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline {

// The lines that a user wants to see (PACELINE_LOG).
enum class LogLevel : std::uint8_t { quiet, info, debug };

// "quiet", "info" or "debug".
std::optional<LogLevel> log_level_of(std::string_view text);

// Sets it for this process, which begins with info. THREAD: any.
void set_log_level(LogLevel wanted);

// A warning, printed at every log level: something is wrong, and the program goes on. The text is
// one sentence without a full stop, or several. THREAD: any; a line is written in one piece.
void warn(std::string_view text);
// Lines that are printed at levels info and debug.
void log_info(std::string_view text);
void log_debug(std::string_view text);

}  // namespace paceline
