// `paceline simulate`: computes how long schedules would take, in virtual time.
#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli::catalogue {

Subcommand simulate() {
  return subcommand_of(
      {.name = "simulate",
       .summary = "forecast schedules of gradients and of pipelines in virtual time",
       .about = "Simulates training in virtual time, without a network.",
       .question = "no simulation is named; for example `paceline simulate pipeline` or `paceline "
                   "simulate survey`",
       .example = "paceline simulate pipeline --schedule 1f1b --stages 4 --micro-batches 8",
       .place = 60});
}

}  // namespace paceline::cli::catalogue
