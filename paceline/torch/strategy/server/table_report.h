// A table's figures, as the report of a step has them.
#pragma once

#include "paceline/core/server/server.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::strategy {

replica::ServerReport report_of(const server::TableFigures& figures);

}  // namespace paceline::strategy
