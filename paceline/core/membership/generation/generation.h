// Generation: this member's links to all other members of one generation, and the one place where a
// failure becomes everybody's.
//
// The first failure that any rank sees ends the generation: it is told to all peers and to every
// sink, everything in flight ends with it, and it stays the cause that later calls throw.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/base/processors.h"
#include "paceline/core/membership/handshake/member_name.h"
#include "paceline/core/membership/store/rank_device.h"
#include "paceline/core/transport/transport.h"

namespace paceline::membership {

// The receiver of the frames of one group. THREAD: reactor's driver only.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  virtual MutableBytes place(int peer, const transport::FrameHeader& header) = 0;
  virtual Result<> received(int peer, const transport::FrameHeader& header, Bytes payload,
                            bool placed) = 0;
  virtual Result<> borrowed(int peer, const transport::FrameHeader& header, Bytes payload) = 0;
  virtual void failed(const Failure& why) = 0;  // once; nothing comes after it
  // The peer has ended its Job on purpose, or its loss is borne.
  virtual void departed(int peer) = 0;
  // A server that was started again is linked to this member.
  virtual void arrived(int /*peer*/) {}
  // A call that the peer has made here and this rank has not; empty: none.
  virtual std::string pending_call_of(int peer) const = 0;
};

// The places of all members, which all of them know alike.
struct Hosts {
  std::vector<int> of_ranks;         // by member: its host; hosts are numbered by their first rank
  std::vector<ProcessorPool> pools;  // which ranks share processors, whatever their hosts
  bool share_memory = false;         // ranks of one host do
  std::vector<RankDevice> devices;   // by member; empty: nobody was asked

  bool has_company(int rank) const;  // another rank reads and writes this one's memory
  bool is_crowded(int rank) const;   // more ranks than processors share those of this one
  static Hosts this_one(int ranks, bool share_memory);
};

// Members are numbered: first the ranks, by rank, then the servers, which have no rank. Servers that
// are started again while the job runs come late: they are new members, numbered after all others,
// and no process takes over the number of one that has ended.
struct GenerationIdentity {
  int rank = 0;  // the member's number
  int size = 1;  // all members of the beginning
  std::uint64_t job = 0;
  std::uint64_t generation = 1;
  int servers = 0;  // of them

  int ranks() const { return size - servers; }
  std::string name_of(int member) const { return member_name(member, ranks()); }
};

class Generation final : private transport::LinkOwner {
 public:
  // `frames`: those that the rooms above send over its links. THROWS Error (misuse): two kinds have
  // one number.
  explicit Generation(const GenerationIdentity& identity,
                      std::span<const transport::FrameKind> frames = {});

  const GenerationIdentity& identity() const { return identity_; }
  transport::StreamIdentity stream_identity(int peer) const;
  transport::LinkOwner& link_owner() { return *this; }
  // All that may come over its links.
  const transport::FrameKinds& frame_kinds() const { return kinds_; }

  // Before anything is sent: one link for each peer. `shares_memory`: all ranks can read each
  // other's memory.
  void attach(int peer, std::unique_ptr<transport::Link> link) {
    links_.at(static_cast<std::size_t>(peer)) = std::move(link);
  }
  // While the generation runs: a link to a member that comes late, whose loss fails nobody. Sinks
  // hear that it has arrived. REQUIRES: a peer from identity().size on, without a link here.
  // THREAD: driver.
  void attach_late(int peer, std::unique_ptr<transport::Link> link);
  // All of whom a link was here, also lost ones. THREAD: driver.
  const std::set<int>& late_members() const { return late_; }
  // The peer had ended before this member came late: sinks find it departed. THREAD: driver.
  void missed(int peer) { departed_.insert(peer); }
  void set_shares_memory(bool shares) { shares_memory_ = shares; }
  bool shares_memory() const { return shares_memory_; }
  // Before anything is chosen; without it all are on this one.
  void set_hosts(Hosts hosts) { hosts_ = std::move(hosts); }
  const Hosts& hosts() const { return hosts_; }

  // nullptr for this rank itself, and for one that has not come. THREAD: driver.
  transport::Link* link(int peer) {
    const auto place = static_cast<std::size_t>(peer);
    return place < links_.size() ? links_[place].get() : nullptr;
  }
  bool has_departed(int peer) const { return departed_.contains(peer); }
  // The loss of these fails nobody: sinks hear that they have departed. THREAD: driver.
  void bear_loss_of(const std::set<int>& members) { borne_.insert(members.begin(), members.end()); }
  // How a member that has departed was lost; nothing: it was not. THREAD: driver.
  std::optional<Failure> loss_of(int peer) const;

  // Tells all members that this one's buffers lie in the memory of `device` ("cuda:0"), so that they
  // name it where this member is late or lost; the last one named counts. A name that is not of
  // printable ASCII is kept from them. THREAD: driver.
  void name_device(std::string_view device);
  // " (on cuda:0)", behind the peer's name; empty: it has named none. THREAD: driver.
  std::string device_of(int peer) const;

  void subscribe(std::uint32_t group, FrameSink* sink);  // nullptr ends it. THREAD: driver.
  std::string pending_call_of(int peer) const;           // by any group. THREAD: driver.

  // Numbers of groups: false when this one is in use here. THREAD: any.
  bool reserve_group(std::uint32_t group);
  void release_group(std::uint32_t group);

  // Ends the generation; the first call wins. THREAD: driver.
  void fail(Failure why);
  // The same with the launcher's verdict, which knows no devices.
  void fail_as_told(Failure verdict);
  // An exception destroys what is in flight here: it ends at once, and the peers are told by the
  // next of fail(), with the cause, and tell_unwound(), with `thrown` where it is known. Nothing, if
  // the generation has failed. THREAD: driver.
  void unwind(const std::optional<Failure>& thrown);
  void tell_unwound();
  // Has a value once all peers are stopped and all that was in flight has ended. THREAD: any.
  std::optional<Failure> failure() const;
  // True from the first call of fail() on; failure() follows within it. THREAD: any.
  bool is_failing() const { return failing_.load(std::memory_order_acquire); }
  // Called once with the failure that this rank found or was told (at once if it has). THREAD:
  // driver.
  void on_failure(std::function<void(const Failure&)> callback);

  // Segments of own shared memory, known to all links. THREAD: driver.
  std::uint64_t next_segment() { return ++last_segment_; }  // a number for one. THREAD: any.
  void share(std::uint64_t segment, std::shared_ptr<const transport::SharedMemory> memory);
  void unshare(std::uint64_t segment);
  void withhold(std::uint64_t segment);  // tells all links that it will not come
  const transport::SegmentTable& segments() const { return segments_; }
  // REQUIRES: the links were abandoned. A call that has lent this and fails calls it before it
  // returns: nothing arrives there any more. THREAD: driver.
  void take_back(const transport::SharedRegion& lent);

  // Says goodbye to all peers, after tell_unwound(). THREAD: driver.
  void leave();
  bool flushed() const;
  // Ends the links, and tells nobody any more. Groups that are still here fail, and so do their
  // later calls. THREAD: driver.
  void close();

 private:
  MutableBytes place(int peer, const transport::FrameHeader& header) override;
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload,
                    bool placed) override;
  Result<> borrowed(int peer, const transport::FrameHeader& header, Bytes payload) override;
  void lost(int peer, const Failure& why) override;
  void depart(int peer);
  // A frame that came before its group was made here: a peer may be first.
  struct Early {
    int peer;
    transport::FrameHeader header;
    std::vector<std::byte> payload;
    Bytes borrowed;
  };
  Result<> keep(int peer, const transport::FrameHeader& header, Bytes payload, bool borrowed);
  FrameSink* sink(std::uint32_t group) const;
  void abandon_links();
  void tell(const Failure& why);
  void end(Failure why);

  const GenerationIdentity identity_;
  transport::FrameKinds kinds_;
  transport::SegmentTable segments_;
  std::vector<std::unique_ptr<transport::Link>> links_;
  std::map<std::uint32_t, FrameSink*> sinks_;
  std::map<std::uint32_t, std::vector<Early>> early_;
  std::size_t early_bytes_ = 0;
  std::set<int> departed_, borne_, late_;
  std::map<int, Failure> losses_;       // of those that are borne
  std::map<int, std::string> devices_;  // that members have named
  bool shares_memory_ = false;
  Hosts hosts_;
  bool leaving_ = false;
  std::optional<Failure> untold_;  // the peers are not told yet
  std::atomic<bool> failing_ = false;
  std::atomic<std::uint64_t> last_segment_ = 0;
  std::function<void(const Failure&)> on_failure_;
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;  // guarded by mutex_
  std::set<std::uint32_t> groups_;  // guarded by mutex_
};

}  // namespace paceline::membership
