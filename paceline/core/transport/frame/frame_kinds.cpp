#include "paceline/core/transport/frame/frame_kinds.h"

#include "paceline/core/base/check.h"

namespace paceline::transport {

void FrameKinds::refuse(const FrameKind& kind, const FrameKind& taken_by) {
  const int number = static_cast<int>(kind.type);
  PACELINE_CHECK(!kind.name.empty(), "the kind of frames with number {} has no name", number);
  throw_misuse(
      fmt::format("two kinds of frames have the number {}: '{}' and '{}'; each needs its "
                  "own (docs/wire.md)",
                  number, taken_by.name, kind.name));
}

}  // namespace paceline::transport
