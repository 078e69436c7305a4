// The forecast of clocks_of_workers() (server_clocks.h): the same machines in virtual time, where
// messages take none.
#pragma once

#include "paceline/app/measure/server_clocks.h"

namespace paceline::measure {

// Clocks a second, the mean of the workers. THROWS Error (misuse): no such synchrony, or it does
// not fit the workers.
double forecast_clocks_per_second(const ClockOptions& options, int workers, int servers);

}  // namespace paceline::measure
