// The catalogue entry of a synchrony on servers.
#pragma once

#include <string_view>

#include "paceline/torch/strategy/local/strategy_catalogue.h"

namespace paceline::strategy {

// Its name, summary and settings are those of the table's consistency of this name
// (core/server/consistency).
Strategy server_strategy(std::string_view name, std::string_view reference);

}  // namespace paceline::strategy
