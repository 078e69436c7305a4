#include "paceline/core/collective/group/open_communicator.h"

#include <utility>

#include "paceline/core/collective/group/communicator_impl.h"

namespace paceline::collective {

std::unique_ptr<Communicator> open_communicator(Opening opening) {
  return std::make_unique<Communicator>(std::make_unique<Communicator::Impl>(std::move(opening)));
}

}  // namespace paceline::collective
