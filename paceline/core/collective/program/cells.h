// The memory that a step touches.
//
// Internal to the verifier and its tests, though nothing here is about proofs.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

// The slots of its own rank that a step reads: none, one or two.
class Reads {
 public:
  explicit Reads(const Step& step);
  const Slot* begin() const { return slots_.data(); }
  const Slot* end() const { return slots_.data() + count_; }

 private:
  std::array<Slot, 2> slots_ = {};
  std::size_t count_ = 0;
};

// The slot of its own rank that a step writes; a store writes none.
std::optional<Slot> written_slot(const Step& step);

bool is_send(const Step& step);  // send or store
bool is_recv(const Step& step);  // recv or recv_reduce

// Numbers the memory of one rank: two slots have the same cell exactly when they share memory. In
// place, input(c) and output(c) do; a scratch place is one cell, whichever chunk lies in it.
class Cells {
 public:
  Cells(const Program& program, bool in_place)
      : chunks_(program.chunks), scratch_places_(program.scratch_places), in_place_(in_place) {}

  std::size_t count() const { return static_cast<std::size_t>(2 * chunks_ + scratch_places_); }
  std::size_t of(const Slot& slot) const;
  bool reads(const Step& step, std::size_t cell) const;
  bool writes(const Step& step, std::size_t cell) const;
  // A copy of memory onto itself: what remains, in place, of the copy that the other case needs.
  bool is_idle(const Step& step) const;

 private:
  int chunks_;
  int scratch_places_;
  bool in_place_;
};

}  // namespace paceline::collective
