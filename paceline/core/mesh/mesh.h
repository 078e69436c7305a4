// The door of mesh: ranks on a grid whose axes are kinds of parallelism.
//
// A Layout is a pure value: which axes there are and how long each is, and from these each rank's
// coordinates and the ranks with which it shares a group. A DeviceMesh is a layout with a
// Communicator for each of these groups.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/job/job.h"

namespace paceline::mesh {

// Layout: how the ranks of a run stand on a grid of kinds of parallelism, as a value.
//
// Axes from outer to inner: pp (pipeline stages), dp (data), cp (context: parts of each sequence),
// tp (tensors), so
//
//   rank = tp + TP (cp + CP (dp + DP pp)).
//
// Neighbours on the innermost axis have neighbouring ranks, which usually share a host: tensor
// parallelism sends most. The axes ep (experts) and edp refine dp x cp: of the ranks that share pp
// and tp, counted as q = cp + CP dp, those with equal q / EP share an ep group, in which each has
// other experts, and those with equal q % EP an edp group, in which each has the same ones.
// Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM, SC 2021 (the order of the axes).
enum class Axis : std::uint8_t { pp, dp, cp, tp, ep, edp };
inline constexpr std::array kAxes = {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::ep, Axis::edp};
std::string_view name_of(Axis axis);

// Several axes at once: a group then spans all of them. Axes that refine others stand alone.
class Axes {
 public:
  // Names, separated by commas: "tp", "dp,cp". A failure (misuse) names the known ones.
  static Result<Axes> parse(std::string_view text);
  Axes(std::initializer_list<Axis> axes);

  bool has(Axis axis) const { return (bits_ >> static_cast<unsigned>(axis) & 1U) != 0; }
  std::string text() const;  // in the order of the axes
  bool operator==(const Axes&) const = default;

 private:
  unsigned bits_ = 0;
};

class Layout {
 public:
  // "dp=2,tp=2", in any order. An axis that is not named has one rank; ep counts the ranks among
  // which a layer's experts are spread, and divides dp * cp. A failure (misuse) says what is wrong
  // and what is right: an unknown axis, one that is named twice, a length that is no whole number
  // above 0, a product that is not `world_size`, an ep that does not divide.
  static Result<Layout> parse(std::string_view text, int world_size);

  int world_size() const;
  int size(const Axes& axes) const;           // the product of their lengths
  int coordinate(Axis axis, int rank) const;  // 0 .. size - 1. REQUIRES: a rank of the world
  // The ranks that differ from this one along these axes alone, in rising order: its group. The
  // place of a rank in its group is its coordinate, for one axis. REQUIRES: a rank of the world.
  std::vector<int> group(const Axes& axes, int rank) const;
  std::string text() const;  // with the axes that are longer than one; "dp=1": none is
  bool operator==(const Layout&) const = default;

 private:
  int length(Axis axis) const { return lengths_[static_cast<std::size_t>(axis)]; }
  int place(Axis axis, int rank) const;

  std::array<int, kAxes.size()> lengths_ = {1, 1, 1, 1, 1, 1};
};

}  // namespace paceline::mesh

namespace paceline {

// DeviceMesh: the ranks of a run on a layout, with a Communicator for each group of an axis.
//
//   DeviceMesh mesh(job, "dp=2,tp=2");
//   mesh.group("tp").all_reduce(buffer).wait();   // over the ranks that share this one's dp
//
// THREAD: one at a time. It ends before its Job.
class DeviceMesh {
 public:
  // Every rank of the job calls it, with the same layout; it blocks. All groups are made at once,
  // in one order. Rank 0 warns on stderr where a tp group spans hosts, since its messages are the
  // most frequent ones. THROWS Error (misuse): as Layout::parse.
  DeviceMesh(Job& job, std::string_view layout);
  DeviceMesh(const DeviceMesh&) = delete;
  DeviceMesh& operator=(const DeviceMesh&) = delete;

  const mesh::Layout& layout() const { return layout_; }
  Job& job() { return job_; }
  Communicator& world() { return world_; }

  // The group of this rank along "pp", "dp", "cp", "tp", "ep", "edp", "dp,cp" (replicas of the same
  // parameters) or "pp,tp" (one whole model). THROWS Error (misuse): other axes.
  Communicator& group(std::string_view axes);
  int rank(std::string_view axes) { return group(axes).rank(); }  // in that group
  int size(std::string_view axes) { return group(axes).size(); }

 private:
  struct Group {
    mesh::Axes axes;
    std::unique_ptr<Communicator> communicator;
  };

  Job& job_;
  Communicator& world_;
  const mesh::Layout layout_;
  std::vector<Group> groups_;
};

}  // namespace paceline
