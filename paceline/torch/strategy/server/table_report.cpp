#include "paceline/torch/strategy/server/table_report.h"

#include <cstdint>

namespace paceline::strategy {

replica::ServerReport report_of(const server::TableFigures& figures) {
  replica::ServerReport report = {.version = static_cast<std::int64_t>(figures.version),
                                  .used = static_cast<std::int64_t>(figures.used),
                                  .dropped = static_cast<std::int64_t>(figures.dropped)};
  for (const auto& [staleness, count] : figures.staleness)
    report.staleness[static_cast<std::int64_t>(staleness)] = static_cast<std::int64_t>(count);
  return report;
}

}  // namespace paceline::strategy
