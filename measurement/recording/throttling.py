"""The reasons for GPU throttling, as recordings store them."""

# NVML's nvmlClocksEventReasons, by their bit in the mask `throttle_reasons`. Its other reasons
# (idle, clocks set by the user, sync boost) are not throttling.
THROTTLE_REASONS = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
