// A plan: which gradients travel together, in what parts, how, and in which order. It is a value:
// rank 0 makes it, every rank carries out the same.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/schedule/costs.h"
#include "paceline/core/schedule/model.h"

namespace paceline::schedule {

// A run of the send order that is encoded, sent and delivered as a whole.
struct Group {
  int begin = 0, end = 0;  // places [begin, end)
  std::string codec = std::string(kUncompressed);
  std::size_t part_bytes = 0;  // of gradients, in a message; 0: the whole group is one
  Path path = Path::all_to_all;
  // The lowest goes first. None: first ready, first sent.
  std::optional<int> priority = {};
  bool operator==(const Group&) const = default;
};

struct Plan {
  std::string name;
  std::vector<Group> groups;
  // The next forward pass starts at once, and waits at each tensor for that tensor alone. Else all
  // parameters are back before the step ends.
  bool crosses_barrier = false;
  // So many bytes are handed to the link before the first of them are back; what is ready and not
  // yet handed over can still be overtaken by what is more urgent. 0: no limit. It shapes `order`;
  // who carries the plan out goes by that alone.
  std::size_t window_bytes = 0;
  // The group of each message, in the order in which all ranks send (ordered(), simulate.h). Empty:
  // one group after the other. Only so can it be carried out where groups have priorities.
  std::vector<int> order = {};
  bool operator==(const Plan&) const = default;
};

// THROWS Error (misuse) unless the groups' runs tile [0, tensors) in order, none empty.
void check(const Plan& plan, int tensors);

double bytes_of(const Model& model, const Group& group);
// Messages of the group: parts of equal length.
int parts_of(const Model& model, const Group& group);
// Of the group with that codec.
double wire_bytes(const Model& model, const Group& group, const CodecCost& codec);

// Where groups end, in the send order: starts with 0, ends with the number of tensors.
using Cuts = std::vector<int>;
Cuts one_group(int tensors);
Cuts single_tensors(int tensors);
// Groups are closed as soon as they have `least` bytes.
Cuts buckets_of(const Model& model, double least);
Cuts cuts_of(const Plan& plan);

// All groups alike, but for their priorities.
struct Uniform {
  Path path = Path::all_to_all;
  std::size_t part_bytes = 0;
  std::string codec = std::string(kUncompressed);
  bool by_forward_order = false;  // else first ready, first sent
  bool crosses_barrier = false;
  std::size_t window_bytes = 0;
};
Plan plan_of(std::string name, const Cuts& cuts, const Uniform& all);

// What is encoded travels in messages of at most so many bytes of gradients: the codec works on one
// while others are on the link, or wait for their shared scale.
inline constexpr std::size_t kLongestEncoded = 4 << 20;
void cut_encoded(Plan& plan);
// The plan with that codec for all groups, cut so.
Plan encoded(Plan plan, const std::string& codec);

// "priority: 398 groups in 726 messages, server, across the barrier, window 16.4 MB"
std::string to_string(const Plan& plan, const Model& model);

}  // namespace paceline::schedule
