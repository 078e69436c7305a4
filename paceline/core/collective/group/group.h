// Group: the machine behind a communicator. Collectives run one after the other in the order of
// their calls; each call is compared with the other ranks' calls before their data is used, which a
// program (program_carrier.h) or the group's engine (engine.h) then carries. Every wait has a
// deadline.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>

#include "paceline/core/collective/carrier/board_carrier.h"
#include "paceline/core/collective/carrier/device_kernel_carrier.h"
#include "paceline/core/collective/carrier/link_carrier.h"
#include "paceline/core/collective/carrier/point_to_point.h"
#include "paceline/core/collective/group/active_operation.h"
#include "paceline/core/collective/group/late_sends.h"
#include "paceline/core/collective/group/stall_watch.h"
#include "paceline/core/collective/staging/staged_calls.h"

namespace paceline::collective {

class Group final : public membership::FrameSink, private transport::Pollable {
 public:
  static constexpr std::chrono::milliseconds kUsualStallTime{5000};

  // `id`: the same on all members, and of no other group that any of them is in. `engine`: of the
  // same members; nullptr: requests by an engine are not made. After a `stall_time` without any
  // progress a warning says whom an operation waits for.
  Group(std::uint32_t id, std::string name, std::shared_ptr<transport::Reactor> reactor,
        Members members, std::shared_ptr<Engine> engine = nullptr,
        std::chrono::milliseconds stall_time = kUsualStallTime);
  ~Group() override = default;

  std::uint32_t id() const { return id_; }
  const std::string& name() const { return name_; }
  const Members& members() const { return members_; }
  std::chrono::milliseconds stall_time() const { return stall_time_; }
  membership::Generation& generation() const { return members_.generation(); }
  const std::shared_ptr<transport::Reactor>& reactor() const { return reactor_; }
  // THROWS Error: as check_alive(), with the description. THREAD: any.
  std::shared_ptr<Work::State> new_work(std::string description);

  // THROWS Error: the failure that has ended the generation. While that is being ended by the
  // driver it waits for the end, so that no call begins after a Work has failed. THREAD: any.
  void check_alive() const;
  // The group lives at least until the call has reached the driver. THREAD: any.
  static void submit(const std::shared_ptr<Group>& group, Request request);
  // Carries a call that ranks post out here and now, if no rank must be waited for longer than
  // a hand-over takes. False: submit it; what was posted stands. THREAD: any.
  bool try_at_once(Request& request);
  // Whether ranks may reach each other's device memory, as far as is known. THREAD: any.
  bool may_reach_devices() const { return kernels_.may_reach_devices(); }
  static void submit_send(const std::shared_ptr<Group>& group, PointToPoint::Transfer transfer);
  static void submit_recv(const std::shared_ptr<Group>& group, PointToPoint::Transfer transfer);
  // The same where `call` brings the input from a device, or the output to it.
  static void submit_send(const std::shared_ptr<Group>& group, PointToPoint::Transfer transfer,
                          std::shared_ptr<StagedCall> call);
  static void submit_recv(const std::shared_ptr<Group>& group, PointToPoint::Transfer transfer,
                          std::shared_ptr<StagedCall> call);
  static void abort(const std::shared_ptr<Group>& group,
                    std::string reason);  // ends the generation
  // An exception takes buffers away: the generation and all calls of this rank end at once.
  // THREAD: any.
  void unwind();
  Traffic traffic();
  void open();  // begins to receive
  // Ends what is in flight. `unwinds`: by an exception, which whoever catches it may tell.
  void close(bool unwinds = false);

 private:
  MutableBytes place(int peer, const transport::FrameHeader& header) override;
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload,
                    bool placed) override;
  Result<> borrowed(int peer, const transport::FrameHeader& header, Bytes payload) override;
  void failed(const Failure& why) override;
  void departed(int peer) override;
  std::string pending_call_of(int peer) const override;

  // The ranks tell each other what they have called if not all are known to have assented to a
  // call after this time, or after half of the time that is left.
  static constexpr std::chrono::milliseconds kAsk{500};

  // The reactor stops looking at a group that was idle so many times: of many groups few are used
  // at a time.
  static constexpr int kIdleLooks = 256;

  struct EarlyFrame {
    int peer;  // its rank in the world
    transport::FrameHeader header;
    std::vector<std::byte> payload;
    Bytes borrowed;
  };
  Result<> take(int peer, const transport::FrameHeader& header, Bytes payload, Delivery delivery);
  void begin(Request request);
  void bring_back_later(const Request& request);
  Result<> stage_now(Request& request);
  bool may_begin(const Request& request) const;
  void device_went_on();
  void begin(PointToPoint::Transfer transfer, void (PointToPoint::*how)(PointToPoint::Transfer));
  void begin_send(PointToPoint::Transfer transfer);
  void begin_staged_send(PointToPoint::Transfer transfer, std::shared_ptr<StagedCall> call);
  void begin_staged_recv(PointToPoint::Transfer transfer, const std::shared_ptr<StagedCall>& call);
  void carry_late_sends();
  void begin_next();
  void end_current_if_done();
  void go_on();
  bool poll() override;
  void be_looked_at();
  void set_asleep(bool asleep) override { board_.set_asleep(asleep); }
  Result<int> member(int world_rank) const;
  Result<> past(int peer, const transport::FrameHeader& header);
  Clock::time_point asks_at() const;
  Result<> posted(int peer, const transport::FrameHeader& header, Bytes payload, Delivery delivery);
  bool may_come(std::uint64_t sequence) const;
  Failure out_of_turn(int world_rank, std::uint64_t sequence) const;
  Result<> keep_early(int peer, const transport::FrameHeader& header, Bytes payload,
                      Delivery delivery);
  void check_departed();
  void end_unwound(const std::optional<Failure>& thrown);
  bool is_busy() const;
  void note_activity();
  void arm_timer();
  std::uint64_t movement() const;
  void tell_stalls(Clock::time_point now);
  std::optional<Failure> overdue_transfer(Clock::time_point now);
  std::optional<Failure> overdue_call(Clock::time_point now);
  void on_timer();

  const std::uint32_t id_;
  const std::string name_;
  const std::shared_ptr<transport::Reactor> reactor_;
  const Members members_;
  const std::shared_ptr<Engine> engine_;
  const std::chrono::milliseconds stall_time_;
  const std::shared_ptr<std::atomic<std::int64_t>> waited_;

  // THREAD: driver.
  Traffic traffic_;
  PointToPoint point_to_point_;
  const bool share_memory_;  // all members
  GroupBoard board_;         // if they do, for the next two
  BoardCarrier board_carrier_;
  DeviceKernelCarrier kernels_;
  LinkCarrier links_;  // if they do not
  StagedCalls staged_;
  LateSends late_sends_;
  const OperationContext context_;
  std::deque<Request> queue_;
  Deadline queued_until_;  // no deadline in the queue is before this
  std::unique_ptr<ActiveOperation> current_;
  std::uint64_t next_sequence_ = 1;  // of the call that will be begun next
  std::uint64_t posted_ = 0;         // the call that try_at_once has posted last
  // Frames of the call with next_sequence_, or if that is posted, of the one after it: a peer is at
  // most one call ahead of this rank.
  std::vector<EarlyFrame> early_;
  bool replaying_ = false;  // the early frames are being handed over
  std::optional<Clock::time_point> active_since_;
  std::uint64_t frames_received_ = 0;
  StallWatch stalls_;
  Clock::time_point begun_at_ = {};  // the current operation
  std::optional<transport::Poller::TimerId> timer_;
  Clock::time_point timer_due_ = {};
  bool closed_ = false;
  bool is_looked_at_ = false;
  int idle_looks_ = 0;
};

}  // namespace paceline::collective
