#include "paceline/core/collective/group/machine_links.h"

#include "paceline/core/collective/group/communicator_impl.h"
#include "paceline/core/collective/group/group_number.h"

namespace paceline {

collective::MachineLinks Communicator::machine_links() {
  check_may_wait("a machine among ranks");
  collective::Group& group = *impl_->group;
  membership::Generation& generation = group.generation();
  const std::uint32_t number =
      collective::agree_on_number(*this, generation, group.id(),
                                  {.count = ++impl_->machines, .color = collective::kMachineColor});
  generation.release_group(number);  // the machine's port takes it
  return {group.reactor(), group.members().shared_generation(), impl_->timeout, group.stall_time(),
          number,          group.members().world_ranks()};
}

}  // namespace paceline
