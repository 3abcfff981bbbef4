// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl {

/// For a thread that works little and waits much: it runs soon after it was woken, also where other threads compute on
/// its processor, instead of a few milliseconds later. Its share of the processor stays the same. Linux 6.12 and later
/// ("custom slices" of the EEVDF scheduler, sched(7)); without effect elsewhere.
void take_short_slices() noexcept;

}  // namespace distdl
