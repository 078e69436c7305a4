// Progress of one rank through its part of an order, as a pure value: it is told what arrived and
// what was computed, and answers which operation runs next and which receives to post.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <span>

#include "paceline/core/pipeline/order/order.h"
#include "paceline/core/pipeline/run/transfer.h"

namespace paceline::pipeline {

class RankProgress {
 public:
  // `ahead`: at most so many receives are posted beside that of the operation that runs next.
  RankProgress(Placement placement, int ahead);

  // Puts operations at the end of the rank's list.
  void append(std::span<const Operation> operations);
  // This operation will be appended later: its receive may be posted once those of the list are.
  void expect(const Operation& operation);
  // The operation that needs this message was expected, and will not be appended.
  void forget(const Transfer& transfer);

  // Returns the next receive that the caller shall post, in the order in which the rank needs the
  // messages. Each is returned once. Empty: nothing is to be posted before another message arrives.
  std::optional<Transfer> next_receive();
  // A receive that was given is done.
  void arrived(const Transfer& transfer);

  bool is_done() const { return list_.empty(); }  // nothing is left in the list
  // The operation that runs next. REQUIRES: not is_done().
  const Operation& next() const { return list_.front(); }
  // The message for which it waits; empty: it can begin.
  std::optional<Transfer> awaited() const;
  // The next operation begins, and is taken off the list. REQUIRES: nothing is awaited.
  Operation begin();

 private:
  std::optional<Transfer> receive_of(const Operation& operation) const;

  Placement placement_;
  std::size_t ahead_, looked_ = 0;  // looked_: so many of the list have their receives posted
  std::deque<Operation> list_, expected_;
  std::set<Transfer> posted_;   // for operations that have not begun
  std::set<Transfer> arrived_;  // of these
};

}  // namespace paceline::pipeline
