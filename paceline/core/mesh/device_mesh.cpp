#include "paceline/core/mesh/device_mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "paceline/core/base/log.h"

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
