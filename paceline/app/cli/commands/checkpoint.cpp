// `paceline checkpoint`: looks at what runs have saved.
#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli::catalogue {

Subcommand checkpoint() {
  return subcommand_of(
      {.name = "checkpoint",
       .summary = "list, show, verify and compare what runs have saved",
       .about = "Looks at the checkpoints that runs have saved.",
       .question =
           "no command on checkpoints is named; for example `paceline checkpoint ls runs/a`",
       .example = "paceline checkpoint verify runs/a",
       .place = 90});
}

}  // namespace paceline::cli::catalogue
