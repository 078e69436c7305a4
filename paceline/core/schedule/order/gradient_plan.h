// A plan says which gradients travel together, in what parts, how, and in which order. It is a
// value: rank 0 makes it, and every rank carries out the same plan.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

// A run of the send order that is encoded, sent and delivered as a whole.
struct MessageGroup {
  int begin = 0, end = 0;  // places [begin, end)
  std::string codec = std::string(kUncompressed);
  std::size_t part_bytes = 0;  // bytes of gradients in a message; 0: the whole group
  Path path = Path::all_to_all;
  // The lowest priority goes first. If there is none: first ready, first sent.
  std::optional<int> priority = {};
  bool operator==(const MessageGroup&) const = default;
};

struct MessagePlan {
  std::string name;
  std::vector<MessageGroup> groups;
  // If true, the next forward pass starts at once, and waits at each tensor for that tensor alone.
  // Otherwise all parameters are back before the step ends.
  bool crosses_barrier = false;
  // The most bytes handed to the link before the first of them are back; ready messages that are
  // not yet handed over can still be overtaken by more urgent ones. 0: no limit. The window shapes
  // `order`; a plan is carried out by `order` alone.
  std::size_t window_bytes = 0;
  // The group of each message, in the order in which all ranks send (ordered(), simulate.h). Empty:
  // one group after the other. A plan with priorities needs an order to be carried out.
  std::vector<int> order = {};
  bool operator==(const MessagePlan&) const = default;
};

// THROWS Error (misuse) unless the groups' runs tile [0, tensors) in order, none empty.
void check(const MessagePlan& plan, int tensors);

double bytes_of(const Model& model, const MessageGroup& group);
// The number of the group's messages: parts of equal length.
int parts_of(const Model& model, const MessageGroup& group);
// The group's bytes on the wire with that codec.
double wire_bytes(const Model& model, const MessageGroup& group, const CodecCost& codec);

// The ends of groups in the send order: the first is 0, the last the number of tensors.
using Cuts = std::vector<int>;
Cuts one_group(int tensors);
Cuts single_tensors(int tensors);
// Groups are closed as soon as they have `least` bytes.
Cuts buckets_of(const Model& model, double least);
Cuts cuts_of(const MessagePlan& plan);

// Properties that all groups share; only their priorities differ.
struct Uniform {
  Path path = Path::all_to_all;
  std::size_t part_bytes = 0;
  std::string codec = std::string(kUncompressed);
  bool by_forward_order = false;  // else first ready, first sent
  bool crosses_barrier = false;
  std::size_t window_bytes = 0;
};
MessagePlan plan_of(std::string name, const Cuts& cuts, const Uniform& all);

// Encoded groups travel in messages of at most this many bytes of gradients: the codec works on one
// while others are on the link, or wait for their shared scale. Groups whose method needs whole
// tensors are not cut at all (compress/methods/method_catalogue.h).
inline constexpr std::size_t kLongestEncoded = 4 << 20;
void cut_encoded(MessagePlan& plan);
// The plan with that codec for all groups, cut as by cut_encoded().
MessagePlan encoded(MessagePlan plan, const std::string& codec);

// The plan with that way for all groups. A window to servers has room for messages that wait there
// or are pulled while others are pushed: kServerWindow at least.
inline constexpr std::size_t kServerWindow = 16 << 20;
MessagePlan on_path(Path path, MessagePlan plan);

// "priority: 398 groups in 726 messages, server, across the barrier, window 16.4 MB"
std::string to_string(const MessagePlan& plan, const Model& model);

}  // namespace paceline::schedule
