#include "paceline/core/compress/methods/method_catalogue.h"

#include <algorithm>

#include "paceline/core/base/check.h"

namespace paceline::compress {

double Settings::operator[](std::string_view name) const {
  const auto found = std::ranges::find(values, name, &Value::name);
  PACELINE_CHECK(found != values.end(), "there is no setting {}", name);
  return found->value;
}

const Method* find(const Catalogue& catalogue, std::string_view name) {
  const auto found = std::ranges::find(catalogue, name, &Method::name);
  return found == catalogue.end() ? nullptr : &*found;
}

}  // namespace paceline::compress
