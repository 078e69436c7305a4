// The memory of parameters in units: whole, where the model reads it, and this rank's piece, which
// an optimizer steps.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/gradient/gradient.h"
#include "paceline/torch/replica/replica.h"
#include "paceline/torch/shard/units.h"

namespace paceline::shard {

// A tensor of one dimension over a segment: a leaf that an optimizer steps.
struct Leaf {
  Segment segment;
  at::Tensor tensor;
};

// While it lives, the parameters of a unit are views of one storage. The values stay what they are,
// and so do autograd's nodes. THREAD: one. THROWS Error (io): there is not enough memory.
class UnitMemory {
 public:
  // `stays_whole`: whole units stay in memory, and pieces are parts of them. Else a unit is empty
  // until fill(), and pieces lie apart. `units` and `group` outlive this.
  UnitMemory(const Units& units, const replica::ModelParts& parts, Communicator& group,
             bool stays_whole);
  // Parameters of whole units get memory of their own, with their values, while there is some; the
  // others stay without.
  ~UnitMemory();
  UnitMemory(const UnitMemory&) = delete;
  UnitMemory& operator=(const UnitMemory&) = delete;

  bool is_whole(std::size_t unit) const { return whole_[unit] != nullptr; }
  // Gives the unit memory of any content. REQUIRES: it is empty.
  void fill(std::size_t unit);
  // Takes it away; who reads the parameters then is told so by an exception of libtorch. What the
  // program wrote into the parameters since fill() goes into the piece.
  void empty(std::size_t unit);
  // The same without a look at whether it wrote: past libtorch's version counters too. REQUIRES: it
  // is whole, and the piece is as it was gathered.
  void take_writes(std::size_t unit);

  Buffer whole(std::size_t unit) const;  // REQUIRES: is_whole()
  ConstBuffer piece(std::size_t unit) const;
  // Handles that keep the memory alive while messages read and write it.
  std::vector<std::shared_ptr<const void>> owners(std::size_t unit) const;
  // While it is hidden, who reads a whole unit past libtorch's operators is told so by an
  // exception.
  void hide(std::size_t unit);
  void show(std::size_t unit);
  // Makes every number of a whole unit NaN.
  void poison(std::size_t unit);

  // Returns, by parameter, the fingerprint of the whole values that the program wrote since the
  // last call; 0 if it did not. Only where pieces lie apart.
  std::vector<std::uint64_t> take_fingerprints();
  // A parameter whose memory is not its unit's any more (`set_data()`); -1: there is none.
  int moved_parameter() const;

  const std::vector<c10::Storage>& storages() const { return storages_; }  // by unit
  const std::vector<Leaf>& leaves() const { return leaves_; }  // in the order of parameters
  gradient::MemoryPool& pool() { return pool_; }
  std::size_t piece_bytes() const;  // of all pieces, where they lie apart

 private:
  void move_in(std::size_t unit);
  void take_out(Leaf& leaf);
  void take_out(std::size_t unit);
  void make_leaf(std::size_t parameter);
  std::byte* piece_start(std::size_t unit) const;
  bool was_written(std::size_t parameter) const;
  void note_versions(std::size_t unit);

  const Units& units_;
  Communicator& group_;
  const bool stays_whole_;
  std::vector<at::Tensor> parameters_;
  std::vector<c10::Storage> storages_;               // by unit
  gradient::MemoryPool pool_;                        // of whole units
  std::vector<std::shared_ptr<Allocation>> whole_;   // by unit; null: empty
  std::vector<std::shared_ptr<Allocation>> pieces_;  // by unit; null: part of the whole one
  std::vector<Leaf> leaves_;
  std::vector<std::uint32_t> versions_;      // by parameter, when its unit was filled
  std::vector<std::uint64_t> fingerprints_;  // by parameter, of what was written
};

}  // namespace paceline::shard
