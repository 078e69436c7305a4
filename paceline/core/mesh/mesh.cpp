#include "paceline/core/mesh/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/base/log.h"
#include "paceline/core/base/number.h"
#include "paceline/core/base/suggestion.h"
#include "paceline/core/settings/settings.h"

namespace paceline {
namespace {

using mesh::Axes;
using mesh::Axis;
using mesh::Layout;

std::vector<Axes> axes_with_groups() {
  return {{Axis::pp}, {Axis::dp},  {Axis::cp},           {Axis::tp},
          {Axis::ep}, {Axis::edp}, {Axis::dp, Axis::cp}, {Axis::pp, Axis::tp}};
}

void warn_of_distant_tensors(const Layout& layout, const topology::Topology& topology) {
  const std::vector<int> hosts = topology.host_of_ranks();
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    if (layout.coordinate(Axis::tp, rank) != 0) continue;
    const std::vector<int> group = layout.group({Axis::tp}, rank);
    const auto host_of = [&](int one) { return hosts[static_cast<std::size_t>(one)]; };
    if (std::ranges::all_of(group, [&](int one) { return host_of(one) == host_of(rank); }))
      continue;
    return warn(
        fmt::format("layout \"{}\": ranks {} share tensors (tp), and are on several hosts. Each "
                    "layer waits for their messages: give a host a multiple of {} ranks, or take a "
                    "smaller tp",
                    layout.text(), fmt::join(group, ", "), group.size()));
  }
}

}  // namespace

DeviceMesh::DeviceMesh(Job& job, std::string_view layout)
    : job_(job), world_(job.world()), layout_(Layout::parse(layout, job.world_size()).value()) {
  for (const Axes& axes : axes_with_groups())
    groups_.push_back({axes, world_.split(layout_.group(axes, world_.rank()).front())});
  if (world_.rank() == 0) warn_of_distant_tensors(layout_, world_.topology());
}

Communicator& DeviceMesh::group(std::string_view text) {
  const Axes axes = Axes::parse(text).value();
  const auto found = std::ranges::find(groups_, axes, &Group::axes);
  if (found != groups_.end()) return *found->communicator;
  std::vector<std::string> known;
  for (const Group& one : groups_) known.push_back("\"" + one.axes.text() + "\"");
  throw Error(
      {Fault::misuse,
       fmt::format("a mesh has no group along \"{}\": it has {}", text, fmt::join(known, ", ")),
       {}});
}

}  // namespace paceline

namespace paceline::mesh {
namespace {

constexpr std::array<std::string_view, kAxes.size()> kNames = {"pp", "dp", "cp", "tp", "ep", "edp"};
constexpr std::string_view kSettable = "pp, dp, cp, tp and ep";

std::optional<Axis> axis_named(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return kAxes[static_cast<std::size_t>(found - kNames.begin())];
}

std::string suggested(std::string_view name) {
  return suggestion(std::string(name), std::vector<std::string>(kNames.begin(), kNames.end()));
}

}  // namespace

std::string_view name_of(Axis axis) {
  return kNames[static_cast<std::size_t>(axis)];
}

// --- Axes ----------------------------------------------------------------------------------------

Axes::Axes(std::initializer_list<Axis> axes) {
  for (const Axis axis : axes) bits_ |= 1U << static_cast<unsigned>(axis);
  PACELINE_CHECK(axes.size() == 1 || !(has(Axis::ep) || has(Axis::edp)),
                 "ep and edp refine dp and cp: a group of theirs spans no other axis");
}

Result<Axes> Axes::parse(std::string_view text) {
  Axes axes = {};
  const auto words = split_at(text, ',');
  for (const std::string_view word : words) {
    const auto axis = axis_named(word);
    if (!axis)
      return Failure{
          Fault::misuse,
          fmt::format("'{}' in \"{}\" is no axis of a mesh: there are pp, dp, cp, tp, ep "
                      "and edp{}",
                      word, text, suggested(word)),
          {}};
    if ((*axis == Axis::ep || *axis == Axis::edp) && words.size() > 1)
      return Failure{Fault::misuse,
                     fmt::format("\"{}\": {} refines dp and cp, so its groups span no other axis: "
                                 "ask for \"{}\" alone",
                                 text, word, word),
                     {}};
    axes.bits_ |= 1U << static_cast<unsigned>(*axis);
  }
  return axes;
}

std::string Axes::text() const {
  std::string text;
  for (const Axis axis : kAxes)
    if (has(axis)) text += fmt::format("{}{}", text.empty() ? "" : ",", name_of(axis));
  return text;
}

// --- Layout --------------------------------------------------------------------------------------

Result<Layout> Layout::parse(std::string_view text, int world_size) {
  const auto wrong = [&](std::string_view what) {
    return Failure{Fault::misuse, fmt::format("layout \"{}\": {}", text, what), {}};
  };
  Layout layout;
  std::array<bool, kAxes.size()> is_given = {};
  for (const std::string_view word : split_at(text, ',')) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = word.substr(0, equals);
    const auto axis = axis_named(name);
    if (!axis || *axis == Axis::edp)
      return wrong(fmt::format("'{}' is no axis whose length can be set: these are {}{}", name,
                               kSettable, axis ? "" : suggested(name)));
    if (std::exchange(is_given[static_cast<std::size_t>(*axis)], true))
      return wrong(fmt::format("{} is given twice", name));
    const auto length = number_in<int>(word.substr(std::min(equals + 1, word.size())));
    if (!length || *length < 1)
      return wrong(fmt::format("'{}' gives {} no length: write {}=N with a whole number above 0",
                               word, name, name));
    layout.lengths_[static_cast<std::size_t>(*axis)] = *length;
  }
  std::int64_t product = 1;
  for (const Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp}) {
    product *= layout.length(axis);
    if (product > world_size) break;
  }
  if (product != world_size)
    return wrong(
        fmt::format("its axes multiply to {}{} ranks, and the run has {}: let pp, dp, cp "
                    "and tp multiply to {}",
                    product > world_size ? "at least " : "", product, world_size, world_size));
  const int refined = layout.length(Axis::dp) * layout.length(Axis::cp),
            ep = layout.length(Axis::ep);
  if (refined % ep != 0)
    return wrong(
        fmt::format("ep={} does not divide dp * cp = {}: experts are spread over ranks of "
                    "dp and cp",
                    ep, refined));
  layout.lengths_[static_cast<std::size_t>(Axis::edp)] = refined / ep;
  return layout;
}

int Layout::world_size() const {
  return size({Axis::pp, Axis::dp, Axis::cp, Axis::tp});
}

int Layout::size(const Axes& axes) const {
  int size = 1;
  for (const Axis axis : kAxes)
    if (axes.has(axis)) size *= length(axis);
  return size;
}

int Layout::place(Axis axis, int rank) const {
  const int within_tp = rank / length(Axis::tp);
  const int q = within_tp % (length(Axis::dp) * length(Axis::cp));
  switch (axis) {
    case Axis::tp: return rank % length(Axis::tp);
    case Axis::cp: return q % length(Axis::cp);
    case Axis::dp: return q / length(Axis::cp);
    case Axis::pp: return within_tp / (length(Axis::dp) * length(Axis::cp));
    case Axis::ep: return q % length(Axis::ep);
    case Axis::edp: return q / length(Axis::ep);
  }
  return 0;
}

int Layout::coordinate(Axis axis, int rank) const {
  PACELINE_CHECK(rank >= 0 && rank < world_size(), "rank {} stands on no mesh of {} ranks", rank,
                 world_size());
  return place(axis, rank);
}

// Its ranks agree on every axis that is not among `axes`; ep and edp together stand for dp and cp.
std::vector<int> Layout::group(const Axes& axes, int rank) const {
  const bool refines = axes.has(Axis::ep) || axes.has(Axis::edp);
  std::vector<std::pair<Axis, int>> fixed;
  for (const Axis axis : kAxes) {
    const bool is_refined = axis == Axis::dp || axis == Axis::cp;
    const bool is_refining = axis == Axis::ep || axis == Axis::edp;
    if (!axes.has(axis) && !(refines ? is_refined : is_refining))
      fixed.emplace_back(axis, coordinate(axis, rank));
  }
  const int ranks_in_all = world_size();
  std::vector<int> ranks;
  for (int other = 0; other < ranks_in_all; ++other)
    if (std::ranges::all_of(fixed,
                            [&](const auto& one) { return place(one.first, other) == one.second; }))
      ranks.push_back(other);
  return ranks;
}

std::string Layout::text() const {
  std::string text;
  for (const Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::ep})
    if (length(axis) > 1)
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", name_of(axis), length(axis));
  return text.empty() ? "dp=1" : text;
}

}  // namespace paceline::mesh
