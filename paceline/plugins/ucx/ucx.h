// The public header of the UCX fabric: the plugin that carries links over UCX (InfiniBand, RoCE,
// shared memory, TCP; UCX_TLS and UCX's other variables choose).
//
// Programs need nothing from it: PACELINE_TRANSPORT=ucx makes every pair of ranks use it.
// core/transport/fabric/fabric.h is the interface that it implements;
// docs/decisions/0013-ucx-carries-frames.md lists its promises. Start reading at ucx_port.h, which
// is one lane of active messages; ucx_fabric.cpp is the worker below all of them, and the plugin's
// entry.
#pragma once

#include "paceline/plugins/ucx/ucx_port.h"
