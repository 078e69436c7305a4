// The door of mesh: ranks on a grid whose axes are kinds of parallelism.
//
// A Layout (layout.h) is a pure value: which axes there are and how long each is, and from these
// each rank's coordinates and the ranks with which it shares a group. A DeviceMesh (device_mesh.h)
// is a layout with a Communicator for each of these groups. Start reading at layout.h.
#pragma once

#include "paceline/core/mesh/device_mesh.h"
#include "paceline/core/mesh/layout.h"
