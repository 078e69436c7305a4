// Memory of this process alone, in huge pages where the system has them: what messages lie in when
// no other process maps it.
#pragma once

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"

namespace paceline::transport {

class PrivateMemory {
 public:
  // Zeroed, page-aligned, committed. The failure names the limit that refused it and the remedy.
  static Result<PrivateMemory> create(std::size_t bytes);

  PrivateMemory(PrivateMemory&& other) noexcept;
  PrivateMemory& operator=(PrivateMemory&& other) noexcept;
  ~PrivateMemory();

  MutableBytes bytes() const { return {data_, size_}; }

 private:
  PrivateMemory(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace paceline::transport
