// The members of a group: their ranks in it and in the world, and the links to them.
//
// Everything above speaks of group ranks; the generation and `Failure::ranks` of ranks in the
// world. Here, and nowhere else, the one becomes the other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "paceline/core/collective/program/program.h"
#include "paceline/core/membership/generation/generation.h"
#include "paceline/core/topology/topology.h"

namespace paceline::collective {

class Members {
 public:
  // In a group of at least this size, a frame from each rank to each costs more than trees do.
  static constexpr int kMany = 8;

  // `world_ranks`: by rank in the group. REQUIRES: this rank is among them, and none is twice.
  Members(std::shared_ptr<membership::Generation> generation, std::vector<int> world_ranks);
  static std::vector<int> all_of(const membership::Generation& generation);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  const std::vector<int>& world_ranks() const { return world_ranks_; }
  int world_rank(int member) const { return world_ranks_[static_cast<std::size_t>(member)]; }
  int member(int world_rank) const;  // -1: it is none
  bool is_world() const { return is_world_; }

  // "rank 2", and in a group that is not the world "rank 2 (rank 5 of the world)".
  std::string name(int member) const;
  std::string names(const std::vector<int>& members) const;  // "ranks 2, 3"
  // "rank 2 (on cuda:1)"; of several, and of one that has named no device, the names alone.
  std::string names_and_device(const std::vector<int>& members) const;
  Failure failure(Fault fault, std::string what, const std::vector<int>& members) const;

  topology::Topology topology() const;
  bool share_memory() const { return share_memory_; }  // some two of them do
  // Many ranks share a processor somewhere, so that they take turns. The same on all members.
  bool take_turns() const { return take_turns_; }
  // The number of ranks that share the work that one rank could do for all, such as a long sum: as
  // many as can run at a time, and all of them in small groups. The same on all members.
  int owners() const { return owners_; }
  Shape shape() const;  // this rank's, with the hosts where they make a difference

  membership::Generation& generation() const { return *generation_; }
  const std::shared_ptr<membership::Generation>& shared_generation() const { return generation_; }
  // nullptr for this rank itself. THREAD: driver.
  transport::Link* link(int member) const { return generation_->link(world_rank(member)); }
  bool has_departed(int member) const { return generation_->has_departed(world_rank(member)); }

 private:
  const std::shared_ptr<membership::Generation> generation_;
  const std::vector<int> world_ranks_;
  std::vector<int> members_;  // by rank in the world
  int rank_ = 0;
  bool is_world_ = false;
  bool share_memory_ = false;
  int owners_ = 0;
  bool take_turns_ = false;
};

}  // namespace paceline::collective
