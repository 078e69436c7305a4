// Runs a program of this machine and returns what it writes to its standard output.
#pragma once

#include <string>
#include <vector>

#include "paceline/paceline.h"

namespace examples {

// `command`: the program's path and its arguments. It reads nothing, has an empty environment, and
// its errors go nowhere. Blocks until it has ended. A failure (io): it cannot be started, writes
// more than `most_bytes`, or ends with another status than 0. THREAD: any.
paceline::Result<std::string> output_of_program(std::vector<std::string> command,
                                                std::size_t most_bytes);

}  // namespace examples
