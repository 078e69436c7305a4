// DeviceMesh: the ranks of a run on a layout, with a Communicator for each group of an axis.
//
//   DeviceMesh mesh(job, "dp=2,tp=2");
//   mesh.group("tp").all_reduce(buffer).wait();   // over the ranks that share this one's dp
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/core/mesh/layout.h"

namespace paceline {

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
