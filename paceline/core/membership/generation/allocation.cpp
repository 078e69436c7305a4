#include "paceline/core/membership/generation/allocation.h"

#include <optional>
#include <utility>

#include "paceline/core/membership/generation/mesh.h"
#include "paceline/core/transport/memory/private_memory.h"

namespace paceline {

class Allocation::Impl {
 public:
  std::shared_ptr<transport::Reactor> reactor;
  std::weak_ptr<membership::Mesh> mesh;
  std::shared_ptr<const transport::SharedMemory> memory;
  std::optional<transport::PrivateMemory> own;  // instead, where no peer could map it
  std::uint64_t segment = 0;
  std::size_t size = 0;
};

Allocation membership::allocate(const std::shared_ptr<transport::Reactor>& reactor,
                                const std::shared_ptr<Mesh>& mesh, std::size_t bytes) {
  auto allocation = std::make_unique<Allocation::Impl>();
  allocation->size = bytes;
  if (!mesh->hosts().has_company(mesh->identity().rank)) {
    allocation->own = transport::PrivateMemory::create(bytes).value();
    return Allocation(std::move(allocation));
  }
  allocation->reactor = reactor;
  allocation->mesh = mesh;
  allocation->memory = std::make_shared<const transport::SharedMemory>(
      transport::SharedMemory::create(bytes).value());
  allocation->segment = mesh->next_segment();
  // Posts keep their order, so every operation that is called later finds the segment known.
  reactor->post(
      [mesh, id = allocation->segment, memory = allocation->memory] { mesh->share(id, memory); });
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
  const auto mesh = impl_->mesh.lock();
  if (mesh) impl_->reactor->post([mesh, id = impl_->segment] { mesh->unshare(id); });
}

MutableBytes Allocation::bytes() const {
  if (!impl_) return {};
  return (impl_->own ? impl_->own->bytes() : impl_->memory->bytes()).first(impl_->size);
}

}  // namespace paceline
