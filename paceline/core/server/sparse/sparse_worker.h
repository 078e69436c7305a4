// SparseWorker: a worker's side of a sparse table. It pulls the rows of lists of ids, and pushes
// gradients to them.
//
// A pull may be ahead: made before the push of this clock, it is answered by the rule of the clock
// after it. On networks that lose messages it sends again whatever has no answer, and takes answers
// that come twice once; where shares have several replicas it does so when their chain has changed. It
// keeps each push until it is answered, so it can send it again with its ids when a server does not
// know the list that it named by its hash.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "paceline/core/coordination/awaited.h"
#include "paceline/core/machine/machine.h"
#include "paceline/core/server/control/part_servers.h"
#include "paceline/core/server/sparse/sparse_packet.h"

namespace paceline::server {

struct SparseWorkerOptions {
  machine::Time resend_after = {};  // zero: the network loses nothing
};

// It tells what came of the lists that its requests named.
struct SparseTraffic {
  std::uint64_t lists = 0;      // sent as ids
  std::uint64_t hashes = 0;     // sent as a hash alone
  std::uint64_t unknown = 0;    // of these: that the share did not know
  std::uint64_t ids_saved = 0;  // that hashes stood for
};

// It reads the shape, which must outlive it. THREAD: one.
class SparseWorker {
 public:
  SparseWorker(const SparseShape& shape, int member, const SparseWorkerOptions& options,
               std::uint32_t timer);

  // --- what the worker does; each returns what is to be sent ---

  machine::Actions start(machine::Time now);
  // Begins a pull, whose number is last_pull(). `ahead`: for the clock after the next push.
  // REQUIRES: can_pull().
  machine::Actions pull(SharedPlan plan, bool ahead);
  // The rows are those of the plan's shares. It ends this clock. REQUIRES: can_push().
  machine::Actions push(SharedPlan plan, std::vector<std::vector<std::byte>> rows, double weight,
                        double rate);
  // Pushes nothing more until all workers rest; then all pushes are in the rows, and all go on at
  // one clock.
  machine::Actions quiesce();
  machine::Actions leave();
  // Fetches rows from a share, or stores some there: what it sends is of kind fetch or store.
  // REQUIRES: has_exchanged().
  machine::Actions exchange(SparsePacket packet);

  // Asks each share that owes this worker something whom it waits for.
  machine::Actions ask();
  bool has_heard() const { return servers_.have_answered(); }  // all that were asked
  coordination::Awaited awaited() const;
  std::uint64_t movement() const { return heard_; }

  // The chains of the table's shares have changed: sends what has no answer to those that take it
  // now.
  machine::Actions configure(const std::vector<Chain>& chains);

  // --- what has come of it ---

  bool has_begun() const { return to_begin_ == 0; }
  bool may_push() const;  // the shares are not too far behind its clock
  bool can_push() const;  // and its window has room
  bool can_pull() const { return pulls_.size() < static_cast<std::size_t>(kWindow); }
  std::uint64_t pushes() const { return pushes_; }
  std::uint64_t answered() const;  // by all shares: pushes up to this one
  std::uint64_t last_pull() const { return last_pull_; }
  bool has_pulled(std::uint64_t pull) const;
  // Writes the rows of a pull, one for each id of its plan, and forgets it. REQUIRES: has_pulled().
  void take_rows(std::uint64_t pull, MutableBytes rows);
  void forget(std::uint64_t pull) { pulls_.erase(pull); }
  bool has_exchanged() const { return !exchanging_.has_value(); }
  struct Fetched {
    IdList ids = {};
    std::vector<std::byte> rows = {};  // values, then state, of each
    std::uint64_t of_arc = 0;          // rows that the arc has
    std::int64_t rule_steps = 0;
  };
  const Fetched& fetched() const { return fetched_; }  // by the last exchange
  bool has_quiesced() const { return to_rest_ == 0; }
  bool has_left() const { return to_leave_ == 0; }
  std::int64_t clock() const { return clock_; }
  // On all shares, at the last rest: see ShareValue.
  struct Stored {
    std::uint64_t rows = 0, counted = 0, evicted = 0;
  };
  Stored stored() const;
  const SparseTraffic& traffic() const { return traffic_; }
  const std::optional<Failure>& failure() const { return servers_.failure(); }

  // --- machine ---

  machine::Actions on_packet(int from, const SparsePacket& packet, machine::Time now);
  machine::Actions on_timer(machine::Time now);
  void on_lost(int peer) { servers_.on_lost(peer); }

 private:
  struct Push {
    SharedPlan plan;
    std::vector<std::byte> rows;
    std::int64_t stamp = 0;
    double weight = 1, rate = 0;
  };
  struct Pull {
    SharedPlan plan;
    std::int64_t least = 0;
    std::uint64_t own = 0;
    std::vector<std::optional<std::vector<std::byte>>> rows;  // by share
  };
  // The state of one share here.
  struct Side {
    std::uint64_t answered = 0;
    std::int64_t clock = 0;                // the highest that it has told
    std::map<std::uint64_t, Push> pushes;  // unanswered, by number
    std::map<int, ListCache> lists;        // by server: that it knows, unless it has lost them
    bool is_beginning = false, is_resting = false, is_leaving = false;
    Stored stored = {};  // at the last rest
  };

  bool is_owed(std::size_t share) const;
  void ask(std::size_t share);
  void name_list(std::size_t share, int server, const IdPlan& plan, bool in_full,
                 SparsePacket& packet);
  void send_push(std::size_t share, std::uint64_t number, bool in_full);
  void send_pull(std::size_t share, std::uint64_t number, bool in_full);
  void send(std::size_t share, SparsePacket packet);  // to the first server
  void send_exchange();
  void send_again(std::size_t share);
  void answer(Side& side, const SparsePacket& packet);
  void rows(std::size_t share, const SparsePacket& packet);
  void rested(Side& side, const SparsePacket& packet);
  void exchanged(std::size_t share, const SparsePacket& packet);

  const SparseShape& shape_;
  PartServers servers_;
  std::vector<Side> sides_;  // by share
  std::map<std::uint64_t, Pull> pulls_;
  std::uint64_t pushes_ = 0, last_pull_ = 0, rest_ = 0;  // numbers
  std::int64_t clock_ = 0;
  std::size_t to_begin_ = 0, to_rest_ = 0, to_leave_ = 0;  // shares
  std::uint64_t heard_ = 0;                                // packets
  std::uint64_t exchange_ = 0;                             // a number
  struct Exchange {
    std::size_t share = 0;
    bool reads = false;  // from the last server; else it is for the first one
    machine::Message message;
  };
  std::optional<Exchange> exchanging_;
  Fetched fetched_;
  SparseTraffic traffic_;
};

}  // namespace paceline::server
