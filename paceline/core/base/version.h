// Paceline's version, the same as in CMakeLists.txt (a test compares them).
#pragma once

namespace paceline {

inline constexpr const char* kVersion = "0.2.0";

}  // namespace paceline
