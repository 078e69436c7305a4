// Execution: one collective in flight on this rank. Runs its program once for each segment, several segments at a time, on any
// kind of link.
//
// Rounds of one segment follow each other; a step waits for its message, and before it writes a slot, for the sends that
// still read it. Until every rank has called, only short messages travel and no output is written, so that a mismatch leaves
// all outputs as they were. Sends never hold a round up. Where links share memory, long messages are references that reductions read in place, and
// stores write the peer's output. An average is scaled by the step that completes a sum, while it is in the cache.
//
// THREAD: reactor's driver only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/core/collective/call.h"
#include "paceline/core/collective/communicator.h"
#include "paceline/core/collective/partition.h"
#include "paceline/core/collective/plan.h"
#include "paceline/core/membership/mesh.h"

namespace paceline::collective {

// What was asked for.
struct Request {
  Call call;
  std::shared_ptr<const Plan> plan;  // nullptr: nothing is carried
  ConstBuffer input;
  Buffer output;
  Partition partition;               // of the whole vector into the plan's chunks, in elements
  std::size_t input_origin = 0;      // element of the whole vector that input.data points at
  std::size_t output_origin = 0;
  int segments = 1;
  bool scale_input = false;          // multiply the input by call.weight first, unless all ranks weigh the same
  Deadline deadline;
  std::shared_ptr<Work::State> work;
};

class Execution final : private transport::SendListener {
 public:
  // `sequence` and `group` mark the frames. `mesh` and `traffic` outlive it. `on_done` is called where a finished send, and none of the
  // calls below, has ended the operation; it may destroy this.
  Execution(membership::Mesh& mesh, std::uint32_t group, std::uint64_t sequence, Request request, Traffic& traffic,
            std::function<void()> on_done);
  ~Execution() override;

  const Request& request() const { return request_; }
  std::uint64_t sequence() const { return sequence_; }

  void start();                              // tells every rank of the call, begins
  Result<> peer_called(int peer, Call call);  // a call that matches
  bool has_called(int peer) const { return calls_[static_cast<std::size_t>(peer)].has_value(); }
  std::vector<int> not_called() const;       // ranks whose call has not come

  MutableBytes place(int peer, const transport::FrameHeader& header);
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload, bool placed);
  Result<> borrowed(int peer, const transport::FrameHeader& header, Bytes payload);

  bool done() const { return calls_missing_ == 0 && segments_left_ == 0; }
  // Weights and notes, into the work. Once done.
  void publish();

 private:
  struct Arrival;
  struct Instance;

  void sent(std::uint64_t cookie) override;

  bool all_called() const { return calls_missing_ == 0; }
  void scale_input();  // once, when every rank has called: it writes the output
  bool weigh_the_same() const;  // then nothing needs to be multiplied. REQUIRES: every rank has called
  Instance& activate(int segment);
  Result<> arrived(int peer, const transport::FrameHeader& header, Arrival arrival);
  Result<> advance(Instance& instance);
  Result<> advance_all();
  void end_round(Instance& instance);
  Result<bool> attempt(Instance& instance, std::size_t action);
  bool attempt_send(Instance& instance, const Action& action);
  Result<bool> attempt_receive(Instance& instance, const Action& action);
  bool attempt_local(Instance& instance, const Action& action);
  bool reduce_and_store(Instance& instance, const Action& action);
  void finish_write(Instance& instance, const Step& step);
  void give_view_back(Instance& instance, const Slot& slot);
  MutableBytes peers_output(const Instance& instance, const Step& store) const;
  bool may_write(const Instance& instance, const Step& step) const;

  std::size_t slot_index(const Slot& slot) const;
  std::size_t slot_bytes(const Instance& instance, const Slot& slot) const;
  Bytes readable(const Instance& instance, const Slot& slot) const;
  MutableBytes writable(Instance& instance, const Slot& slot) const;
  transport::FrameHeader header(transport::FrameType type, int peer, const Instance& instance, int number) const;
  double scale_factor() const;  // of the step that completes an average. REQUIRES: every rank has called

  membership::Mesh& mesh_;
  const std::uint32_t group_;
  const std::uint64_t sequence_;
  Request request_;
  Traffic& traffic_;
  const std::function<void()> on_done_;
  const std::uint64_t descriptor_;
  const std::size_t element_bytes_;
  const bool in_place_;

  std::vector<std::optional<Call>> calls_;
  int calls_missing_ = 0;
  int segments_left_ = 0;
  int next_segment_ = 0;
  std::vector<bool> finished_;  // by segment
  std::map<int, std::unique_ptr<Instance>> instances_;
  std::vector<std::unique_ptr<std::byte[]>> free_scratch_;
  std::size_t scratch_bytes_ = 0;  // of one place
};

}  // namespace paceline::collective
