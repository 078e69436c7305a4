// A subcommand that is nothing but several others, such as `paceline bench`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

struct SubcommandGroup {
  const char* who;       // "paceline bench"
  const char* about;     // one sentence
  const char* question;  // told when no member is named: "which measurement? As in ..."
  const char* example;
  std::vector<Subcommand> (*members)();
};

std::shared_ptr<const CLI::App> described_group(const SubcommandGroup& group);

// Prints the help, or runs the member that the first argument names. Returns the exit code.
int run_group(const SubcommandGroup& group, const std::vector<std::string>& arguments);

}  // namespace paceline::cli
