// Finds the program that a user named, as a shell would, and says in time why it cannot be run.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/base/result.h"

namespace paceline::launch {

// The file to execute for `name`: itself when it contains a '/', else the first executable one in
// `path` (as $PATH). A misuse names what is wrong (no such file, a folder, not executable, a
// missing interpreter) and the remedy.
Result<std::string> find_program(const std::string& name, std::string_view path);

}  // namespace paceline::launch
