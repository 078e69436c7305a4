// The subcommands, each of which is defined by the file of its name.
#pragma once

#include "paceline/app/cli/shared/subcommand.h"

namespace paceline::cli {

Subcommand bench();
Subcommand bench_calibrate();
Subcommand bench_choose();
Subcommand bench_collective();
Subcommand bench_layouts();
Subcommand bench_pipeline();
Subcommand bench_schedule();
Subcommand bench_server();
Subcommand checkpoint();
Subcommand checkpoint_diff();
Subcommand checkpoint_list();
Subcommand checkpoint_show();
Subcommand checkpoint_verify();
Subcommand doctor();
Subcommand plan();
Subcommand plan_pipeline();
Subcommand profile();
Subcommand programs();
Subcommand run();
Subcommand simulate();
Subcommand simulate_pipeline();
Subcommand simulate_survey();
Subcommand top();

}  // namespace paceline::cli
