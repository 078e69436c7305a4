#include "paceline/core/schedule/order/gradient_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/methods/compression.h"

namespace paceline::schedule {

void check(const MessagePlan& plan, int tensors) {
  int place = 0;
  for (const MessageGroup& group : plan.groups) {
    PACELINE_CHECK(group.begin == place && group.end > group.begin,
                   "plan {}: a group sends places [{}, {}) of the send order where the next is {}; "
                   "groups must follow each other without gap, overlap or empty one",
                   plan.name, group.begin, group.end, place);
    place = group.end;
  }
  PACELINE_CHECK(place == tensors, "plan {} sends {} tensors of {}", plan.name, place, tensors);
}

double bytes_of(const Model& model, const MessageGroup& group) {
  std::size_t total = 0;
  for (int place = group.begin; place < group.end; ++place) total += model.sent(place).bytes;
  return static_cast<double>(total);
}

int parts_of(const Model& model, const MessageGroup& group) {
  if (group.part_bytes == 0) return 1;
  const double parts = bytes_of(model, group) / static_cast<double>(group.part_bytes);
  return std::max(1, static_cast<int>(std::ceil(parts - 1e-9)));
}

double wire_bytes(const Model& model, const MessageGroup& group, const CodecCost& codec) {
  double wire = 0;
  for (int place = group.begin; place < group.end; ++place) {
    const Tensor& tensor = model.sent(place);
    const auto bytes = static_cast<double>(tensor.bytes);
    wire += bytes < kLeastCompressed ? bytes : bytes * codec.of(tensor.offer).ratio;
  }
  return wire;
}

Cuts one_group(int tensors) {
  return {0, tensors};
}

Cuts single_tensors(int tensors) {
  Cuts cuts;
  for (int place = 0; place <= tensors; ++place) cuts.push_back(place);
  return cuts;
}

Cuts buckets_of(const Model& model, double least) {
  Cuts cuts = {0};
  double open = 0;
  for (int place = 0; place < model.size(); ++place) {
    open += static_cast<double>(model.sent(place).bytes);
    if (open < least && place + 1 < model.size()) continue;
    cuts.push_back(place + 1);
    open = 0;
  }
  return cuts;
}

Cuts cuts_of(const MessagePlan& plan) {
  Cuts cuts = {0};
  for (const MessageGroup& group : plan.groups) cuts.push_back(group.end);
  return cuts;
}

MessagePlan plan_of(std::string name, const Cuts& cuts, const Uniform& all) {
  MessagePlan plan{.name = std::move(name),
                   .groups = {},
                   .crosses_barrier = all.crosses_barrier,
                   .window_bytes = all.window_bytes};
  const int tensors = cuts.back();
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    plan.groups.push_back(
        {.begin = cuts[i],
         .end = cuts[i + 1],
         .codec = all.codec,
         .part_bytes = all.part_bytes,
         .path = all.path,
         .priority = all.by_forward_order ? std::optional(tensors - cuts[i + 1]) : std::nullopt});
  }
  return plan;
}

void cut_encoded(MessagePlan& plan) {
  for (MessageGroup& group : plan.groups) {
    if (group.codec == kUncompressed) continue;
    if (compress::needs_whole_tensors(group.codec)) group.part_bytes = 0;
    else if (group.part_bytes == 0 || group.part_bytes > kLongestEncoded)
      group.part_bytes = kLongestEncoded;
  }
}

MessagePlan encoded(MessagePlan plan, const std::string& codec) {
  for (MessageGroup& group : plan.groups) group.codec = codec;
  cut_encoded(plan);
  return plan;
}

MessagePlan on_path(Path path, MessagePlan plan) {
  for (MessageGroup& group : plan.groups) group.path = path;
  if (path == Path::server && plan.window_bytes > 0)
    plan.window_bytes = std::max(plan.window_bytes, kServerWindow);
  return plan;
}

std::string to_string(const MessagePlan& plan, const Model& model) {
  int messages = 0;
  std::set<std::string> ways;
  for (const MessageGroup& group : plan.groups) {
    messages += parts_of(model, group);
    ways.insert(group.codec == kUncompressed
                    ? std::string(name_of(group.path))
                    : fmt::format("{}/{}", name_of(group.path), group.codec));
  }
  std::string text = fmt::format("{}: {} groups in {} messages, {}, {}", plan.name,
                                 plan.groups.size(), messages, fmt::join(ways, "+"),
                                 plan.crosses_barrier ? "across the barrier" : "with a barrier");
  if (plan.window_bytes > 0)
    text += fmt::format(", window {:.1f} MB", static_cast<double>(plan.window_bytes) / 1e6);
  return text;
}

}  // namespace paceline::schedule
