// Command lines: finds the program that a user named, as a shell would, says before the start why
// it cannot be run, and writes words as a shell must be given them.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/base/result.h"

namespace paceline::launch {

// A failure (misuse): there is none any more, or it is closed to this user.
Result<std::string> current_folder();

// The file to execute for `name`: `name` itself when it contains a '/', else the first executable
// file of that name in `path` (written like $PATH). The failure (misuse) names the defect (no such
// file, a folder, not executable, a missing interpreter) and the remedy.
Result<std::string> find_program(const std::string& name, std::string_view path);

// The word as it is when a shell takes it so, else in quotes: any bytes without a zero come back
// exactly, in every shell of POSIX.
std::string shell_word(std::string_view word);

}  // namespace paceline::launch
