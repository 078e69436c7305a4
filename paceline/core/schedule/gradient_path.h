// GradientPath: carries the gradients of a model over a group of ranks as a plan says. Ready
// gradients become messages, messages become all_reduces, and whoever needs a mean waits for its
// group of gradients alone.
//
// A thread of its own hands the messages over (docs/decisions/0018-one-order-for-all-ranks.md), in
// the plan's order, which is the same on all ranks. Messages that are under way at once go over
// groups of their own, so that the next one begins while the last one ends.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/collective/communicator.h"
#include "paceline/core/schedule/dispatch.h"

namespace paceline::schedule {

class GradientPath {
 public:
  // When a message was under way on this rank.
  struct Journey {
    int message = 0;
    Clock::time_point begin, end;
  };

  // Collective: all ranks of `group` say the same model and plan. Gradients of f32; those of the
  // plan's group g lie in groups[g], in send order, and become the mean over the ranks there. They
  // and `group` outlive this. THROWS Error: misuse (a plan that does not fit the model or the
  // buffers, or asks for what is not there: servers, codecs); what ended the communication.
  GradientPath(Communicator& group, const Model& model, const Plan& plan,
               std::vector<Buffer> groups);
  // In the middle of a step the group's ranks fail: end steps first.
  ~GradientPath();
  GradientPath(const GradientPath&) = delete;
  GradientPath& operator=(const GradientPath&) = delete;

  const Dispatch& dispatch() const { return dispatch_; }

  // The gradient at `place` of the send order stands in its buffer, which is the path's from here
  // on until wait(place). Once a step, in any order. THREAD: any.
  void ready(int place);
  // Blocks until the mean of the group to which `place` belongs is back, if it is under way.
  // THROWS Error: what ended the communication. THREAD: any.
  void wait(int place);
  // wait() for all.
  void finish();

  // Since the last call.
  std::vector<Journey> take_journeys();

 private:
  void send_messages();
  std::optional<int> next_message();
  void hand_over(int message);
  void came_back(Journey journey, const Result<>& result);
  void fail(std::exception_ptr why);
  template <typename Done>
  void wait_until(const Done& done);

  Dispatch dispatch_;
  const std::vector<Buffer> buffers_;

  std::mutex call_mutex_;  // calls of the groups, and their end
  std::vector<std::unique_ptr<Communicator>> lanes_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> pending_;  // by group: some of its gradients are there, and its mean is not
  std::size_t sequence_ = 0;   // messages handed over so far
  std::size_t under_way_ = 0;
  std::vector<Journey> journeys_;
  std::exception_ptr failure_;
  bool stopping_ = false;

  std::thread sender_;
};

}  // namespace paceline::schedule
