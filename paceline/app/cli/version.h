// Which Paceline this is; the same as in CMakeLists.txt (a test compares them).
#pragma once

namespace paceline::cli {

constexpr const char* kVersion = "0.1.0";
constexpr const char* kReleased = "2026-11-21";  // the date of man pages

}  // namespace paceline::cli
