// `paceline bench`: measurements, each of which is a subcommand of its own.
#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli::catalogue {

Subcommand bench() {
  return subcommand_of(
      {.name = "bench",
       .summary = "measure: how fast collectives are, and which is best",
       .about = "Measures what this machine, or these hosts, can do.",
       .question = "no measurement is named; for example `paceline bench collective --ranks 2`",
       .example = "paceline bench collective --ranks 2 --algorithms all --html collectives.html",
       .place = 20});
}

}  // namespace paceline::cli::catalogue
