// The store's logic as a pure machine: which keys there are, who waits for them, who is objected
// to, and which verdict ends the run. Sockets stand around it (store_server.h).
//
// Peers are the connections that have passed the handshake, as the owner numbers them; a connection
// begins with hello(). Messages have the kinds of frames (docs/wire.md). Keys are set once, and
// read by waiting for them; those of one generation are not seen by another. Values of a member
// that has gone are empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/membership/handshake/member_name.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::membership {

class StoreMachine final : public machine::Machine {
 public:
  // Reports of ranks are sent to this address, as {index: the rank, payload: the failure}, and so
  // are the steps that they have saved, as {index: the rank, payload: the step}, the reports of
  // servers, as {index: the member, payload: the report}, and who is linked to all others or says
  // goodbye, as {index: the member}.
  static constexpr int kOwner = -1;

  // The job has `ranks` and `servers`, which are numbered after them.
  explicit StoreMachine(int ranks, int servers = 0)
      : ranks_(ranks), servers_(servers), world_size_(ranks + servers) {}

  // The first message of a connection, which its owner makes from the handshake's facts.
  static machine::Message hello(int rank, int world_size, std::uint64_t generation);

  machine::Actions on_message(int client, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int client, machine::Time now) override;

  // Whether this connection is a member's, and not one that was objected to.
  bool serves(int client) const;

  // Tells every client, and each that comes later, that the run has failed, and why.
  machine::Actions tell(const Failure& verdict);

  // Tells every client, and each that comes later, which servers have what; the newest map counts.
  machine::Actions tell_map(Bytes map);
  // A server is started again and comes as this member, numbered after all others.
  void expect(int member) { late_.insert(member); }
  // The member's process has ended, or it has left: who waits for its values hears so.
  machine::Actions bury(int member);

 private:
  struct Client {
    int rank = -1;
    std::uint64_t generation = 0;
    bool objected = false;    // told why, and not served
    std::size_t waiting = 0;  // requests without an answer
  };
  struct Waiting {
    int client;
    std::uint32_t request;
  };

  std::string name_of(int member) const { return member_name(member, ranks_); }
  machine::Actions admit(int id, const machine::Message& hello);
  std::optional<Failure> object_to_place(const Client& newcomer, int world_size) const;
  std::optional<Failure> object_to_second(const Client& newcomer) const;
  machine::Actions set(int id, transport::WireReader reader);
  machine::Actions get(int id, std::uint32_t request, transport::WireReader reader);
  void answer_waiting(const std::string& key, machine::Actions& actions);
  void answer(const Waiting& to, const std::string& key, machine::Actions& actions) const;
  bool is_there(const std::string& key) const;
  bool is_of_gone(const std::string& key) const;
  Bytes value_of(const std::string& key) const;
  machine::Actions refuse(int id, std::string_view what);
  void forget(int id);

  const int ranks_, servers_, world_size_;  // the last: all members
  std::map<int, Client> clients_;
  std::set<std::pair<std::uint64_t, int>> published_;  // ranks that have set a key, by generation
  // Keys begin with their generation.
  std::map<std::string, std::vector<std::byte>> values_;
  std::size_t stored_bytes_ = 0;
  std::map<std::string, int> ranks_in_;  // by folder: how many ranks have set their key there
  std::map<std::string, std::vector<Waiting>> waiting_;
  std::optional<Failure> verdict_;
  std::optional<std::vector<std::byte>> map_;  // of servers
  std::set<int> late_, gone_;                  // members
};

}  // namespace paceline::membership
