// GradientPath carries the gradients of a model over a group of ranks as a plan says. Ready
// gradients become messages, messages become exchanges, and a wait for a mean waits for its group
// of gradients alone.
//
// Messages start in the plan's order, which is the same on all ranks
// (docs/decisions/0018-one-order-for-all-ranks.md). Where the transport has several lanes or
// something is encoded, a thread of the path starts them, so that the next one begins while the
// last one ends. Plain messages in one lane need none: the call that makes a message ready starts
// it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/compress/averaging/packed_cast.h"
#include "paceline/core/compress/state/state_transfer.h"
#include "paceline/core/schedule/path/coded_message.h"
#include "paceline/core/schedule/path/dispatch.h"
#include "paceline/core/schedule/path/message_transport.h"

namespace paceline::schedule {

class GradientPath {
 public:
  // The work of this rank's codecs so far.
  struct CodecWork {
    double encode = 0, decode = 0;  // processor seconds
    double bytes = 0;               // bytes of gradients before encoding
    double wire = 0;                // bytes that this rank brought to exchanges
    double whole = 0;               // bytes of `bytes`, and of `wire`, that travel as they are
    int exchanges = 0;
    bool gathers = false;  // some exchanges were not all_reduces
  };

  // All ranks give the same model, plan and kind of transport. The gradients of the plan's group g
  // have one floating type, which is f32 if the group is encoded, and lie in groups[g], in send
  // order; the mean over the ranks replaces them there. The buffers must outlive this. `seed` is
  // that of the codecs' random numbers, the same on all ranks. THROWS Error (misuse): the plan does
  // not fit the model or the buffers, or needs servers or codecs that are not there.
  GradientPath(std::unique_ptr<MessageTransport> transport, const Model& model,
               const MessagePlan& plan, std::vector<Buffer> groups, std::uint64_t seed = 0);
  // Destroying it in the middle of a step makes all ranks fail: end the step first.
  ~GradientPath();
  GradientPath(const GradientPath&) = delete;
  GradientPath& operator=(const GradientPath&) = delete;

  const Dispatch& dispatch() const { return dispatch_; }

  // From the next step on, the group's gradients lie in another buffer of the same type and length.
  // REQUIRES: no gradient of the group is ready in this step.
  void load(int group, const Buffer& gradients);

  // A group whose codec only casts, as fp16 and bf16 do.
  struct Cast {
    Dtype dtype = Dtype::f16;
    std::vector<CastRun> runs = {};  // of the group's elements, in the order of its messages
    std::size_t elements(bool whole) const;
  };
  // Nothing: the group has no such codec.
  const std::optional<Cast>& cast_of(int group) const {
    return casts_[static_cast<std::size_t>(group)];
  }
  // Does load() with gradients that were packed and cast before, for example on their device:
  // `whole` are the elements of runs that are not cast, `cast` all others in the codec's type, one
  // run after the other. Both lie in one memory, of any kind. The means replace them there; the
  // caller looks whether they are finite, because take_overflow() does not know. Other ranks may
  // use load(). REQUIRES: the group has a Cast.
  void load_packed(int group, const Buffer& whole, const Buffer& cast);

  // The gradient at `place` of the send order is in its buffer, which belongs to the path from here
  // on until wait(place). Call it once a step, in any order. THREAD: any. THROWS Error, without a
  // thread of the path: what ended the communication.
  void ready(int place);
  // Blocks until the mean of the group to which `place` belongs is back, if it is under way. THROWS
  // Error: the failure that ended the communication. THREAD: any. REQUIRES, without a thread of the
  // path: all gradients of groups up to this one in the plan's order are ready, or none of its own.
  void wait(int place);
  // Does wait() for all places.
  void finish();
  // The seconds so far in which a message was being encoded, exchanged or decoded; without a thread
  // of the path, in which the lane was used.
  double seconds_under_way();

  CodecWork codec_work();
  // Tells whether, since the last call, a value was not finite or was too large for its codec, in
  // all groups or in one. The message's mean is then missing on all ranks: skip the update.
  bool take_overflow();
  bool take_overflow(int group);

  // The state that this rank's codecs keep from step to step, as a checkpoint has it
  // (compress/state/saved_state.h). `numbers` are the tensors' numbers in that state, by place in
  // the send order. REQUIRES: finish() has returned, and no gradient became ready since.
  std::vector<std::byte> state(std::span<const std::uint32_t> numbers);
  // Continues from such a state, of this plan or another one (compress/state/state_transfer.h).
  // THROWS Error: io, the bytes are malformed; mismatch, they belong to another rank, model or
  // codec.
  void restore(Bytes state, std::span<const std::uint32_t> numbers);

 private:
  // The compression of a message. THREAD: the sender's.
  struct Coded {
    std::unique_ptr<compress::Averaging> averaging;  // nullptr: no compression
    std::vector<PlacedPart> parts = {};
    std::string compression = {};
    double whole_bytes = 0;  // of parts that it leaves as they are
    std::optional<Dtype> cast = {};
    std::vector<CastRun> runs = {};                          // where it only casts
    std::unique_ptr<compress::PackedCast> packed = nullptr;  // takes the averaging's place
    std::uint32_t step = 0;                                  // number of times it was sent
  };
  struct Task {
    enum class Step : unsigned char { begin, transfer, go_on } step = Step::begin;
    int message = 0;
  };

  bool starts_at_once() const { return !sender_.joinable(); }
  void start_ready_messages();
  void wait_in_order(std::size_t group);
  static std::vector<Coded> coded_of(const Dispatch& dispatch, const Model& model,
                                     const MessageContext& place);
  std::vector<std::optional<Cast>> casts_of_groups() const;
  compress::Averaging& present_averaging(int message) {
    Coded& coded = coded_[static_cast<std::size_t>(message)];
    return coded.packed != nullptr ? *coded.packed : *coded.averaging;
  }
  std::vector<compress::LivePart> live_parts(std::span<const std::uint32_t> numbers);
  std::vector<std::size_t> elements_by(std::span<const std::uint32_t> numbers) const;
  void send_messages();
  void carry_out(const Task& task);
  std::optional<Task> next_task();
  std::optional<Task> possible_task();
  Path path_of(int message) const;
  Buffer elements_of(int message) const;
  bool is_coded(int message) const {
    return coded_[static_cast<std::size_t>(message)].averaging != nullptr;
  }
  bool may_begin(int message) const;
  // An encoded message holds its lane until its last exchange has been carried out, so that all
  // ranks start the same exchanges of a lane in the same order.
  std::size_t lane_of(int message) const {
    return static_cast<std::size_t>(message) % is_held_.size();
  }
  // Returns nothing if the path is ending.
  std::optional<Work> started(int message, const compress::Exchange& exchange);
  void send(int message);
  void encode(int message, const Buffer& elements);
  void go_on(int message);
  void exchange(int message, compress::Exchange exchange);
  void transfer(int message, const compress::Exchange& exchange);
  void decode(int message, double taken);
  void came_back(int message, const Result<>& result);
  void exchanged(int message, const Result<>& result);
  void fail(std::exception_ptr why);
  template <typename Done>
  void wait_until(const Done& done);

  Dispatch dispatch_;
  std::vector<Buffer> buffers_;

  std::mutex call_mutex_;  // guards the transport's calls and its end
  std::unique_ptr<MessageTransport> transport_;

  const MessageContext place_;
  std::vector<Coded> coded_;                      // one for each message
  const std::vector<std::optional<Cast>> casts_;  // by group
  std::vector<Work> works_;  // by message; used by a path that starts messages at once

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> pending_;  // by group: some gradients are ready, and the mean is not back
  std::vector<bool> is_held_;  // by lane
  SendingWindow window_;
  std::map<int, compress::Exchange> prepared_;  // by message; they wait to be admitted to the link
  std::deque<int> exchanged_;                   // messages whose exchange has been carried out
  std::size_t under_way_ = 0;                   // operations under way
  std::vector<bool> overflowed_;                // by group
  int begun_ = 0;                               // messages begun that are not back
  Clock::time_point busy_since_{};              // since some message is not back
  Clock::duration busy_{};
  CodecWork codec_work_;
  std::exception_ptr failure_;
  bool stopping_ = false;

  std::thread sender_;
};

}  // namespace paceline::schedule
