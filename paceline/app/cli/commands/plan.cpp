// `paceline plan`: computes, before a run, how to divide a training among ranks.
#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli::catalogue {

Subcommand plan() {
  return subcommand_of(
      {.name = "plan",
       .summary = "compute where a model's layers should stand, beside data parallelism",
       .about = "Computes from a recorded model how to divide its training among ranks.",
       .question =
           "no plan is named; for example `paceline plan pipeline --profile mlp.json --ranks 2`",
       .example = "paceline plan pipeline --profile mlp.json --ranks 4 --bandwidth 1gbit",
       .place = 50});
}

}  // namespace paceline::cli::catalogue
