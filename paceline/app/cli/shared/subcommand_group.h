// A subcommand that is nothing but several others, such as `paceline bench`.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

struct SubcommandGroup {
  std::string_view name;     // "bench", which its members name as their group
  std::string_view summary;  // one line for `paceline --help`
  std::string_view about;    // one sentence
  std::string_view
      question;  // told when no member is named: "no measurement is named; for example ..."
  std::string_view example;
  int place = 0;
};

// It prints the help, or runs the member that its first argument names.
Subcommand subcommand_of(const SubcommandGroup& group);

}  // namespace paceline::cli
