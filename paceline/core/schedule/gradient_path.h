// GradientPath: carries the gradients of a model over a group of ranks as a plan says. Ready
// gradients become messages, messages become all_reduces, and whoever needs a mean waits for its
// group of gradients alone.
//
// A thread of its own hands the messages over (docs/decisions/0018-one-order-for-all-ranks.md), in
// the plan's order, which is the same on all ranks. Messages that are under way at once go over
// groups of their own, so that the next one begins while the last one ends.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/collective/communicator.h"
#include "paceline/core/compress/state_transfer.h"
#include "paceline/core/schedule/coded_message.h"
#include "paceline/core/schedule/dispatch.h"
#include "paceline/core/schedule/sending_window.h"

namespace paceline::schedule {

class GradientPath {
 public:
  // What codecs did so far, on this rank.
  struct CodecWork {
    double encode = 0, decode = 0;  // seconds of a processor
    double bytes = 0;               // of gradients, before
    double wire = 0;                // of what this rank brought to exchanges
    int exchanges = 0;
    bool gathers = false;  // not all exchanges were all_reduces
  };

  // Collective: all ranks of `group` say the same model and plan. Gradients of one floating type,
  // which is f32 where there are codecs; those of the plan's group g lie in groups[g], in send
  // order, and become the mean over the ranks there. They and `group` outlive this. THROWS Error:
  // misuse (a plan that does not fit the model or the buffers, or asks for what is not there:
  // servers, codecs); what ended the communication.
  // `seed`: of the codecs' random numbers, the same on all ranks.
  GradientPath(Communicator& group, const Model& model, const Plan& plan,
               std::vector<Buffer> groups, std::uint64_t seed = 0);
  // In the middle of a step the group's ranks fail: end steps first.
  ~GradientPath();
  GradientPath(const GradientPath&) = delete;
  GradientPath& operator=(const GradientPath&) = delete;

  const Dispatch& dispatch() const { return dispatch_; }

  // From the next step on the group's gradients lie elsewhere, in a buffer of the same type and
  // length, and those of this rank count `weight` times in the mean; with a codec all count the
  // same. REQUIRES: none of the group is ready in this step.
  void load(int group, const Buffer& gradients, double weight = 1);

  // The gradient at `place` of the send order stands in its buffer, which is the path's from here
  // on until wait(place). Once a step, in any order. THREAD: any.
  void ready(int place);
  // Blocks until the mean of the group to which `place` belongs is back, if it is under way.
  // THROWS Error: what ended the communication. THREAD: any.
  void wait(int place);
  // wait() for all.
  void finish();
  // Time in which a message was under way, so far: encoded, exchanged, or decoded.
  double seconds_under_way();

  CodecWork codec_work();
  // Whether since the last call a value was not finite, or too large for its codec. Then the mean
  // of its message is not there, on any rank: the update must be left out. Of all groups, or of
  // one.
  bool take_overflow();
  bool take_overflow(int group);

  // What the codecs of this rank keep from step to step, as a checkpoint has it
  // (compress/saved_state.h). `numbers`: of the tensors, as they are counted there, by their places
  // in the send order. REQUIRES: finish() has returned, and nothing is ready since.
  std::vector<std::byte> state(std::span<const std::uint32_t> numbers);
  // Goes on from such a state, of this plan or another one (compress/state_transfer.h).
  // THROWS Error: io, the bytes are malformed; mismatch, they are of another rank, model or codec.
  void restore(Bytes state, std::span<const std::uint32_t> numbers);

 private:
  // A group of its own for every so-manieth message. One that is encoded holds it until its last
  // exchange has been carried out, so that all ranks start the same exchanges in the same order.
  struct Lane {
    std::unique_ptr<Communicator> group;
    bool is_held = false;
  };
  // What compresses a message; of the sender's thread.
  struct Coded {
    std::unique_ptr<compress::Averaging> averaging;  // nullptr: none
    std::vector<PlacedPart> parts = {};
    std::string compression = {};
    std::uint32_t step = 0;  // how often it was sent
  };
  struct Task {
    enum class Step : unsigned char { begin, transfer, go_on } step = Step::begin;
    int message = 0;
  };

  static std::vector<Coded> coded_of(const Dispatch& dispatch, const Model& model,
                                     const Place& place);
  std::vector<compress::LivePart> live_parts(std::span<const std::uint32_t> numbers);
  std::vector<std::size_t> elements_by(std::span<const std::uint32_t> numbers) const;
  void send_messages();
  void carry_out(const Task& task);
  std::optional<Task> next_task();
  std::optional<Task> possible_task();
  Buffer elements_of(int message) const;
  bool is_coded(int message) const {
    return coded_[static_cast<std::size_t>(message)].averaging != nullptr;
  }
  bool may_begin(int message) const;
  std::size_t lane_of(int message) const { return static_cast<std::size_t>(message) % kLanes; }
  // Nothing: the path ends.
  std::optional<Work> started(int message, const std::function<Work(Communicator&)>& start);
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

  static constexpr std::size_t kLanes = 8;

  Dispatch dispatch_;
  std::vector<Buffer> buffers_;
  std::vector<double> weights_;  // by group

  std::mutex call_mutex_;  // calls of the groups, and their end
  std::array<Lane, kLanes> lanes_;

  const Place place_;
  std::vector<std::size_t> elements_;  // of tensors, by place
  std::vector<Coded> coded_;           // by message

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> pending_;  // by group: some of its gradients are there, and its mean is not
  SendingWindow window_;
  std::map<int, compress::Exchange> prepared_;  // by message, waiting to be admitted to the link
  std::deque<int> exchanged_;                   // messages whose exchange has been carried out
  std::size_t under_way_ = 0;                   // operations
  std::vector<bool> overflowed_;                // by group
  int begun_ = 0;                               // messages that are not back
  Clock::time_point busy_since_{};              // since any is not
  Clock::duration busy_{};
  CodecWork codec_work_;
  std::exception_ptr failure_;
  bool stopping_ = false;

  std::thread sender_;
};

}  // namespace paceline::schedule
