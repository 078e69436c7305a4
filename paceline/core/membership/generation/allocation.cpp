#include "paceline/core/membership/generation/allocation.h"

#include <optional>
#include <utility>

#include "paceline/core/membership/generation/generation.h"
#include "paceline/core/transport/memory/private_memory.h"

namespace paceline {

class Allocation::Impl {
 public:
  std::shared_ptr<transport::Reactor> reactor;
  std::weak_ptr<membership::Generation> generation;
  std::shared_ptr<const transport::SharedMemory> memory;
  std::optional<transport::PrivateMemory> own;  // instead, where no peer could map it
  std::uint64_t segment = 0;
  std::size_t size = 0;
};

Allocation membership::allocate(const std::shared_ptr<transport::Reactor>& reactor,
                                const std::shared_ptr<Generation>& generation, std::size_t bytes) {
  auto allocation = std::make_unique<Allocation::Impl>();
  allocation->size = bytes;
  if (!generation->hosts().has_company(generation->identity().rank)) {
    allocation->own = transport::PrivateMemory::create(bytes).value();
    return Allocation(std::move(allocation));
  }
  allocation->reactor = reactor;
  allocation->generation = generation;
  allocation->memory = std::make_shared<const transport::SharedMemory>(
      transport::SharedMemory::create(bytes).value());
  allocation->segment = generation->next_segment();
  // Posts keep their order, so every operation that is called later finds the segment known.
  reactor->post([generation, id = allocation->segment, memory = allocation->memory] {
    generation->share(id, memory);
  });
  return Allocation(std::move(allocation));
}

Allocation::Allocation() = default;
Allocation::Allocation(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Allocation::Allocation(Allocation&&) noexcept = default;

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

Allocation::~Allocation() {
  if (!impl_) return;
  const auto generation = impl_->generation.lock();
  if (generation)
    impl_->reactor->post([generation, id = impl_->segment] { generation->unshare(id); });
}

MutableBytes Allocation::bytes() const {
  if (!impl_) return {};
  return (impl_->own ? impl_->own->bytes() : impl_->memory->bytes()).first(impl_->size);
}

}  // namespace paceline
