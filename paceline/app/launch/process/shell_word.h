// Words of a command line as a shell must be given them.
#pragma once

#include <string>
#include <string_view>

namespace paceline::launch {

// The word as it is when a shell takes it so, else in quotes: any bytes without a zero come back
// exactly, in every shell of POSIX.
std::string shell_word(std::string_view word);

}  // namespace paceline::launch
