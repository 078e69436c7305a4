#include "paceline/core/collective/program/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>

namespace paceline::collective {

Step send(int peer, Slot source) {
  return {.kind = Step::Kind::send, .peer = peer, .source = source};
}

Step store(int peer, Slot source, Slot peers_target) {
  return {.kind = Step::Kind::store, .peer = peer, .source = source, .target = peers_target};
}

Step recv(int peer, Slot target) {
  return {.kind = Step::Kind::recv, .peer = peer, .target = target};
}

Step recv_reduce(int peer, Slot operand, Slot target, bool operand_is_left) {
  return {.kind = Step::Kind::recv_reduce,
          .peer = peer,
          .operand = operand,
          .target = target,
          .operand_is_left = operand_is_left};
}

Step copy(Slot source, Slot target) {
  return {.kind = Step::Kind::copy, .source = source, .target = target};
}

Step reduce(Slot left, Slot right, Slot target) {
  return {.kind = Step::Kind::reduce, .source = left, .operand = right, .target = target};
}

Step completing(Step step) {
  step.completes = true;
  return step;
}

std::vector<int> messages_of(const Round& round) {
  std::map<int, int> first;  // by peer
  std::vector<int> messages(round.size(), -1);
  for (std::size_t i = 0; i < round.size(); ++i) {
    const Step& step = round[i];
    const bool sends = step.kind == Step::Kind::send || step.kind == Step::Kind::store;
    if (sends) messages[i] = first.emplace(step.peer, static_cast<int>(i)).first->second;
  }
  return messages;
}

namespace {

// Each rank stands in one group, and no group is empty.
bool are_hosts(const std::vector<std::vector<int>>& groups, int ranks) {
  std::vector<int> all;
  for (const auto& group : groups) {
    if (group.empty()) return false;
    all.insert(all.end(), group.begin(), group.end());
  }
  std::ranges::sort(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != static_cast<int>(i)) return false;
  }
  return static_cast<int>(all.size()) == ranks;
}

bool is_grid(const std::vector<int>& dimensions, int ranks) {
  for (const int dimension : dimensions) {
    if (dimension < 1 || ranks % dimension != 0) return false;
    ranks /= dimension;
  }
  return ranks == 1;
}

}  // namespace

bool is_valid(const Shape& shape) {
  const auto names_a_rank = [&](int rank) { return 0 <= rank && rank < shape.ranks; };
  return names_a_rank(shape.rank) && names_a_rank(shape.root) &&
         (shape.groups.empty() || are_hosts(shape.groups, shape.ranks)) &&
         (shape.dimensions.empty() || is_grid(shape.dimensions, shape.ranks));
}

bool is_power_of_two(const Shape& shape) {
  return is_valid(shape) && std::has_single_bit(static_cast<unsigned>(shape.ranks));
}

bool for_any_count(const Shape&) {
  return true;
}

bool for_one_rank(const Shape& shape) {
  return shape.ranks == 1;
}

std::string to_string(const Slot& slot) {
  switch (slot.space) {
    case Slot::Space::input: return fmt::format("input({})", slot.chunk);
    case Slot::Space::output: return fmt::format("output({})", slot.chunk);
    case Slot::Space::scratch: return fmt::format("scratch({}, {})", slot.place, slot.chunk);
  }
  return "unknown slot";
}

namespace {

std::string text_without_completes(const Step& step) {
  const std::string source = to_string(step.source);
  const std::string operand = to_string(step.operand);
  const std::string target = to_string(step.target);
  switch (step.kind) {
    case Step::Kind::send: return fmt::format("send to {}: {}", step.peer, source);
    case Step::Kind::store:
      return fmt::format("store to {}: {} into {}", step.peer, source, target);
    case Step::Kind::recv: return fmt::format("recv from {}: {}", step.peer, target);
    case Step::Kind::recv_reduce:
      return fmt::format("recv_reduce from {}: {} = {} OP {}", step.peer, target,
                         step.operand_is_left ? operand : "received",
                         step.operand_is_left ? "received" : operand);
    case Step::Kind::copy: return fmt::format("copy: {} = {}", target, source);
    case Step::Kind::reduce: return fmt::format("reduce: {} = {} OP {}", target, source, operand);
  }
  return "unknown step";
}

}  // namespace

std::string to_string(const Step& step) {
  return text_without_completes(step) + (step.completes ? ", complete" : "");
}

std::string to_string(const Counters& counters) {
  const auto some = [](long count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  return fmt::format("{}, {}, {} from the busiest rank", some(counters.depth, "round"),
                     some(counters.messages, "message"), some(counters.chunks, "chunk"));
}

std::string to_string(const Shape& shape) {
  std::string text = fmt::format("{} ranks, root {}", shape.ranks, shape.root);
  if (shape.radix != Shape{}.radix) text += fmt::format(", radix {}", shape.radix);
  for (std::size_t i = 0; i < shape.groups.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? ", groups " : "/", fmt::join(shape.groups[i], ","));
  }
  if (!shape.dimensions.empty())
    text += fmt::format(", dimensions {}", fmt::join(shape.dimensions, "x"));
  return text;
}

std::string to_string(const Program& program) {
  std::string text;
  for (std::size_t round = 0; round < program.rounds.size(); ++round) {
    const std::string label = fmt::format("round {}: ", round);
    const std::string indent(label.size(), ' ');
    const Round& steps = program.rounds[round];
    for (std::size_t i = 0; i < steps.size(); ++i) {
      text += (i == 0 ? label : indent) + to_string(steps[i]) + '\n';
    }
  }
  return text;
}

}  // namespace paceline::collective
