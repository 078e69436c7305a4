#include "paceline/core/pipeline/order/schedule_catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace paceline::pipeline {
namespace {

// A reader meets them in this order; others follow by name.
constexpr std::array<std::string_view, 7> kReadingOrder = {
    "sequential", "gpipe", "1f1b", "interleaved", "zero_bubble", "pipedream", "pipedream_2bw"};

std::vector<Schedule> in_reading_order() {
  std::vector<Schedule> all = built_in_schedules();
  std::ranges::stable_sort(all, {}, [](const Schedule& schedule) {
    return std::ranges::find(kReadingOrder, schedule.name) - kReadingOrder.begin();
  });
  return all;
}

Failure refused(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

}  // namespace

std::span<const Schedule> schedules() {
  static const std::vector<Schedule> all = in_reading_order();
  return all;
}

Result<ScheduleChoice> parse_schedule(std::string_view text) {
  return parse_named("pipeline schedule", text,
                     std::vector<Schedule>(schedules().begin(), schedules().end()));
}

Result<Order> make_order(const ScheduleChoice& choice, int ranks, int micro_batches, int batches) {
  const Schedule& schedule = choice.entry;
  if (ranks < 1 || micro_batches < 1 || batches < 1) {
    return refused(
        fmt::format("{} of {} ranks, {} micro-batches and {} batches: give at least one of each",
                    schedule.name, ranks, micro_batches, batches));
  }
  if (schedule.is_synchronous() && batches > 1) {
    return refused(fmt::format(
        "{} ends each batch before the next one begins, so its order has one batch and not {}: "
        "give one, or choose pipedream or pipedream_2bw",
        schedule.name, batches));
  }
  if (schedule.refuses != nullptr) {
    if (auto why = schedule.refuses(ranks, micro_batches)) return refused(*std::move(why));
  }
  return schedule.make(ranks, micro_batches * batches, choice.settings);
}

}  // namespace paceline::pipeline
