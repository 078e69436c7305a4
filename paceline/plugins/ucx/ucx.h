// The door of the UCX fabric: the plugin that carries links over UCX (InfiniBand, RoCE, shared
// memory, TCP; UCX_TLS and UCX's other variables choose).
//
// Programs need nothing of it: PACELINE_TRANSPORT=ucx makes every pair of ranks talk by it. What
// core asks of it is core/transport/fabric.h; what holds is
// docs/decisions/0013-ucx-carries-frames.md. Start reading at ucx_port.h, which is one lane of
// active messages; ucx_fabric.cpp is the worker below all of them, and the plugin's entry.
#pragma once

#include "paceline/plugins/ucx/ucx_port.h"
