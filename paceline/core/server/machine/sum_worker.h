// SumWorker: a worker's side of push_pull. It cuts each call's array into parts, pushes them to the
// servers in turn, and writes the sums where the caller wants them.
//
// Parts are lent to servers that see them, and travel to others (pushed_parts.h). All workers push
// a channel's calls in one order, a few parts to each server at a time: with staggered orders
// servers would hold parts of calls that others have not begun.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/coordination/awaited.h"
#include "paceline/core/machine/machine.h"
#include "paceline/core/server/machine/pushed_parts.h"
#include "paceline/core/server/regions/regions.h"
#include "paceline/core/server/wire/sum_piece.h"

namespace paceline::server {

// A call: its memory must stay until `done`, which is called once, on the driver, with what it
// failed with or nothing.
struct SumCall {
  std::uint32_t channel = 0;
  std::uint64_t number = 0;  // 1, 2, ... of the channel
  ConstBuffer input;
  Buffer output;
  ReduceOp op = ReduceOp::sum;
  std::function<void(std::optional<Failure>)> done;
};

// How a worker lends parts: by nothing (they travel), or through an owner, which outlives the
// machine, and with a stage in shared memory for arrays that lie elsewhere.
struct SumSharing {
  RegionOwner* owner = nullptr;
  MutableBytes stage = {};
};

// How long a worker waits for sums, and how it says so.
struct SumPatience {
  machine::Time timeout = {};                     // of a call
  machine::Time stall = std::chrono::seconds(5);  // without a sum, after which a wait is told
  int rank = 0;                                   // of this worker
  std::function<void(const std::string&)> tell = {};
  // Questions to servers go out; and what else is known of servers that say nothing.
  std::function<void()> asked = {};
  std::function<void(coordination::Awaited&)> excuse = {};
};

// "push_pull of 100 f32 for average"
std::string describe(const SumCall& call);

// The longest parts that arrays are cut into, the same on all workers. Over links short ones: the
// last sums come back when the last parts are there. Within a host each part costs a message.
inline constexpr std::size_t kTravellingPart = 256 << 10, kLentPart = 1 << 20;

// THREAD: put() on any, a mutex guards what it puts; all else on the driver.
class SumWorker final : public machine::Machine {
 public:
  // The servers have the numbers from `first_server` on. The first failure ends all calls, also
  // those to come; `why` may know a better one.
  SumWorker(int first_server, int servers, SumPatience patience,
            std::function<Failure(Failure)> why = {}, const SumSharing& sharing = {},
            std::size_t part_bytes = kLentPart);

  static constexpr std::size_t kWindow = 8;  // parts of a channel under way to a server

  // The call begins when the machine hears, as from itself, kBegin. kCancel, with a channel as its
  // index, ends that channel's calls.
  static constexpr std::uint32_t kBegin = UINT32_MAX, kCancel = UINT32_MAX - 1;
  void put(SumCall call);

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t timer, machine::Time now) override;
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  using Key = std::pair<std::uint32_t, std::uint64_t>;  // channel, call
  struct Open {
    SumCall call;
    std::size_t missing = 0;  // sums
    machine::Time until = {};
  };
  struct Queue {
    PushedParts pushed;
    std::deque<SumPiece> waiting = {};
  };
  using ServerSums = std::map<std::uint32_t, Queue>;  // of a server, by channel
  enum class Asked : std::uint8_t { no, to_tell, to_fail };
  // The last question, about the call that has waited for longest.
  struct Question {
    Key call = {};
    Asked why = Asked::no;
    machine::Time until = {};                               // the answers are waited for
    std::set<int> asked = {};                               // servers
    std::map<int, std::vector<std::int32_t>> lacking = {};  // workers, by server
  };

  machine::Actions begin(machine::Time now);
  void cancel(std::uint32_t channel);
  machine::Actions take(int server, const machine::Message& message, machine::Time now);
  machine::Actions push();
  void push(int server, Queue& queue, machine::Actions& actions);
  void cut(const SumCall& call);
  // How it waits (sum_waiting.cpp):
  machine::Actions ask(const Key& call, Asked why, machine::Time now);
  void take_missing(int server, const machine::Message& message);
  void note_movement(machine::Time now);
  void tell_stall();
  coordination::Awaited awaited() const;
  std::string waits() const;
  Failure deadline_failure() const;
  std::map<Key, Open>::const_iterator oldest() const;
  machine::Time next_look() const;
  bool has_heard() const;
  void fail(Failure failure);
  void end(std::map<Key, Open>::iterator at, std::optional<Failure> failure);
  void revoke(const Key& call, const Failure& why);

  const int first_;
  const SumPatience patience_;
  const std::function<Failure(Failure)> why_;
  RegionOwner* const owner_;
  const std::size_t part_bytes_;
  PartStage stage_;
  std::mutex mutex_;
  std::deque<SumCall> put_;  // guarded by mutex_
  std::map<Key, Open> open_;
  std::vector<ServerSums> sides_;  // by server
  bool is_armed_ = false;          // the timer
  machine::Time quiet_since_ = {};
  bool is_told_ = false;  // that it is quiet
  Question question_;
  std::optional<Failure> failure_;
};

}  // namespace paceline::server
