// ShareMachine: one share of a sparse table on its server. It takes each worker's pushes exactly
// once and in their order, closes steps, and answers pulls when their rows may be read.
//
// Networks may delay, overtake, lose and double: a push carries a number, 1, 2, ... of its worker. A
// push whose number is not above the last one taken is a repeat, and is answered again once it is
// decided; the next one is taken; later ones are held, at most kWindow of a worker. A pull waits
// until the share has the clock that it asks for and the pushes that its worker sent before it.
//
// A request may name a list of ids by its hash alone. If the share does not know the list (it keeps
// the last few of each worker), it says so, and the worker sends the request again with its ids.
//
// Workers fetch stored rows with their state, and store such rows: both while all of them rest, or
// before they begin, for a share does not look after the order of these and pushes.
//
// Workers may rest: nothing waits for one that does. When all do, all they have pushed is applied,
// and they go on at one clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/sparse/share_value.h"
#include "paceline/core/server/sparse/sparse_packet.h"

namespace paceline::server {

// It reads the shape, which must outlive it. THREAD: one.
class ShareMachine {
 public:
  ShareMachine(const SparseShape& shape, std::size_t share);

  machine::Actions on_packet(int from, SparsePacket packet);
  machine::Actions on_lost(int peer);

  const ShareValue& value() const { return value_; }
  ShareValue& value() { return value_; }
  std::int64_t pushes() const { return pushes_; }  // taken in all
  bool has_members() const { return !senders_.empty(); }
  // The most pushes and pulls that it has held of one worker, and the most steps open at a time.
  std::size_t most_held() const { return most_held_; }
  std::size_t most_open_steps() const { return most_open_; }
  std::uint64_t unknown_lists() const { return unknown_; }  // that it has asked for
  void forget_lists();                                      // as one that has lost them: for tests

 private:
  struct Pull {
    std::int64_t least = 0;
    std::uint64_t own = 0;
    SharedIds ids;
  };
  struct Rest {
    std::uint64_t number = 0, own = 0;  // pushes that come before it
  };
  // The state of one worker here. Pushes are taken (accepted in order), then decided.
  struct Sender {
    std::uint64_t taken = 0, decided = 0;
    std::int64_t last_stamp = -1;
    std::map<std::uint64_t, SparsePush> held = {};  // overtook others, by their numbers
    std::map<std::uint64_t, Pull> pulls = {};       // that wait for their rows, by number
    ListCache lists = {};
    bool is_owed = false;  // the word that pushes are decided
    std::optional<Rest> rest = {};
    std::uint64_t last_rest = 0;  // the number of the last that has ended
  };

  void hear(int from, const SparsePacket& packet);
  void begin(int from, const SparsePacket& packet);
  void push(int from, const SparsePacket& packet);
  void pull(int from, const SparsePacket& packet);
  void rest(int from, const SparsePacket& packet);
  void leave(int worker);
  void fetch(int from, const SparsePacket& packet);
  void store(int from, const SparsePacket& packet);
  void ask(int from, const SparsePacket& packet);
  // The ids that a request names, or null, after it has asked for them.
  SharedIds ids_of(int from, const SparsePacket& packet);
  std::string complaint(const Sender& sender, const SparsePacket& packet) const;
  void offer(SparsePush push);
  void close_steps();
  void let_rest();
  void send_rested(int to);
  void send_rows(int to, std::uint64_t number, const Pull& pull);
  bool lacks_push(int member, std::int64_t clock) const;

  void send(int to, SparsePacket packet);
  void fail(std::string why);
  machine::Actions settle();  // answers and rows; ends an event

  const SparseShape* shape_;
  const std::uint32_t share_;
  ShareValue value_;
  std::map<int, Sender> senders_;                         // the members
  std::map<std::int64_t, std::vector<SparsePush>> open_;  // by step
  std::optional<std::string> failure_;
  std::size_t most_held_ = 0, most_open_ = 0;
  std::int64_t pushes_ = 0;
  std::uint64_t unknown_ = 0;
  machine::Actions actions_;  // of the present event
};

}  // namespace paceline::server
