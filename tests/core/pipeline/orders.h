// Orders for tests, by the names that users write.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/pipeline/order/schedule_catalogue.h"

namespace paceline::pipeline::testing {

inline Order order_of(std::string_view schedule, int ranks, int micro_batches) {
  return make_order(parse_schedule(schedule).value(), ranks, micro_batches).value();
}

// The shape of one order of the catalogue.
struct OrderCase {
  ScheduleChoice choice;
  int ranks = 1, micro_batches = 1;
  Order order;

  std::string text() const {
    return choice.text() + " of " + std::to_string(ranks) + " ranks and " +
           std::to_string(micro_batches) + " micro-batches";
  }
};

// Every schedule, with each number of chunks from 2 to 4, for so many ranks and micro-batches,
// where it has an order.
inline std::vector<OrderCase> order_cases(int most_ranks, int most_micro_batches) {
  std::vector<ScheduleChoice> choices;
  for (const Schedule& schedule : schedules()) {
    if (schedule.chunks == nullptr) {
      choices.push_back(parse_schedule(schedule.name).value());
      continue;
    }
    for (const char* chunks : {"2", "3", "4"}) {
      const std::string text = std::string(schedule.name) + ":chunks=" + chunks;
      choices.push_back(parse_schedule(text).value());
    }
  }
  std::vector<OrderCase> cases;
  for (const ScheduleChoice& choice : choices) {
    for (int ranks = 1; ranks <= most_ranks; ++ranks) {
      for (int m = 1; m <= most_micro_batches; ++m) {
        auto order = make_order(choice, ranks, m);
        if (order) cases.push_back({choice, ranks, m, *std::move(order)});
      }
    }
  }
  return cases;
}

}  // namespace paceline::pipeline::testing
