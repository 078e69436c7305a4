// The door of cli: the command `paceline`, one file for each subcommand (commands/run.cpp, ...).
//
// cli.cpp finds the subcommand and turns failures into texts and exit codes. A subcommand is a
// value (subcommand.h) with a name, a line of help and a function; CMake makes their table from the
// files in commands/. What a subcommand does lives in other rooms: here are options, their help and
// their errors (usage: exit code 2). Start reading at cli.cpp and commands/run.cpp.
#pragma once

#include <string>
#include <vector>

namespace paceline::cli {

// `arguments` without the program's name. Returns the exit code; texts go to stdout and stderr.
int run_cli(const std::vector<std::string>& arguments);

}  // namespace paceline::cli
