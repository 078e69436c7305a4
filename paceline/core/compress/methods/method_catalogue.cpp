#include "paceline/core/compress/methods/method_catalogue.h"

#include <algorithm>

namespace paceline::compress {

const Method* find(const Catalogue& catalogue, std::string_view name) {
  const auto found = std::ranges::find(catalogue, name, &Method::name);
  return found == catalogue.end() ? nullptr : &*found;
}

}  // namespace paceline::compress
