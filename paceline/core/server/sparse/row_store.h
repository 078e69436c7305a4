// RowStore: rows in memory by their ids, for one arc of a sparse table.
//
// Rows lie one after the other in chunks, in the order in which they were stored, and do not move,
// but for the last one, which takes the place of one that is removed. An open-addressing index of 8
// bytes an entry tells where: the row's number and 32 bits of the id's hash, from which the index
// grows without looking at rows. So what growth needs beside the rows is the index of one arc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "paceline/core/base/bytes.h"

namespace paceline::server {

// It owns its memory, and counts rows from 0 in the order of their storing. THREAD: one.
class RowStore {
 public:
  // The bytes of a row behind its id; they are aligned to 4, and to 8 if they are a multiple of it.
  explicit RowStore(std::size_t row_bytes);

  std::size_t rows() const { return rows_; }
  std::size_t row_bytes() const { return row_bytes_; }
  std::size_t memory() const;  // bytes that it has taken

  // Fetches what find() of this hash reads first, so that many finds wait at a time.
  void fetch(std::uint64_t hash) const { __builtin_prefetch(&index_[home(hash)]); }
  // The same for the row: it is called when the index has come, and returns a guess of the row.
  const std::byte* fetch_row(std::uint64_t hash) const;

  // The row of this id, or null. `hash` is hash_of_id(id).
  const std::byte* find(std::uint64_t id, std::uint64_t hash) const;
  std::byte* find(std::uint64_t id, std::uint64_t hash) {
    return const_cast<std::byte*>(std::as_const(*this).find(id, hash));
  }
  // A new row, whose bytes are not set. REQUIRES: find() is null.
  std::byte* add(std::uint64_t id, std::uint64_t hash);
  // The last row gets the number of the one that goes; `hash_of_last` is that of its id. Chunks that
  // become empty are given back, the index keeps its size. REQUIRES: find() is not null.
  void remove(std::uint64_t id, std::uint64_t hash, std::uint64_t hash_of_last);

  std::uint64_t id_of(std::size_t row) const;
  const std::byte* at(std::size_t row) const {
    return place(position_of(row)) + sizeof(std::uint64_t);
  }

 private:
  struct Freed {
    Freed() : mapped(0) {}
    explicit Freed(std::size_t bytes) : mapped(bytes) {}
    void operator()(void* memory) const;
    std::size_t mapped;  // bytes of pages of its own; 0: it comes from the heap
  };
  template <typename T>
  using Memory = std::unique_ptr<T[], Freed>;

  static Memory<std::uint64_t> index_of(std::size_t entries);
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash); }
  std::size_t home(std::uint64_t hash) const { return tag_of(hash) & mask_; }
  // A position is a chunk's number, and in the lower bits the place in it.
  std::size_t position_of(std::size_t row) const {
    return (row / chunk_rows_) << chunk_shift_ | row % chunk_rows_;
  }
  std::byte* place(std::size_t position) const {
    const std::size_t in_chunk = position & ((std::size_t{1} << chunk_shift_) - 1);
    return chunks_[position >> chunk_shift_].get() + in_chunk * stride_;
  }
  std::size_t entry_at(std::size_t position, std::uint64_t hash) const;
  void clear_entry(std::size_t i);
  void grow_index();
  void add_chunk();

  std::size_t row_bytes_, stride_;
  std::size_t chunk_rows_ = 0, chunk_shift_ = 0;
  std::size_t rows_ = 0;
  std::size_t mask_ = 0;         // entries of the index, less one
  Memory<std::uint64_t> index_;  // position + 1 in the upper half, below it the tag; 0: free
  std::vector<Memory<std::byte>> chunks_;
};

}  // namespace paceline::server
