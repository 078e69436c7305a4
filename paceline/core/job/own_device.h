// The device that a rank tells the others of when it joins.
#pragma once

#include "paceline/core/device/device.h"
#include "paceline/core/membership/environment/environment.h"
#include "paceline/core/membership/store/rank_device.h"

namespace paceline::job {

// Whether what carries buffers on devices depends on which rank has which. Else none is looked for,
// since a look begins the device's driver.
bool tells_device(const membership::Environment& environment);

// The device with this rank's number on its host, if `devices` has one for it: ranks take them in
// turn, or `sharing` neighbours have one together (0: nobody said so).
membership::RankDevice device_of_rank(device::Devices& devices, int local_rank, int sharing);

// Nothing where tells_device() is false, or where the plugin "cuda" finds no device.
membership::RankDevice own_device(const membership::Environment& environment);

}  // namespace paceline::job
