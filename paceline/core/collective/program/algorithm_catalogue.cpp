#include "paceline/core/collective/program/algorithm_catalogue.h"

#include <algorithm>

namespace paceline::collective {

const Algorithm* find(const Catalogue& catalogue, Operation operation, std::string_view name) {
  const auto found = std::ranges::find_if(catalogue, [&](const Algorithm& algorithm) {
    return algorithm.operation == operation && algorithm.name == name;
  });
  return found == catalogue.end() ? nullptr : &*found;
}

}  // namespace paceline::collective
