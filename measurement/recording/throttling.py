"""The reasons for which a GPU slows itself down, as recordings name them."""

# Clock event reasons (NVML, nvmlClocksEventReasons) by their bit in the mask `throttle_reasons`.
# NVML's others (idle, clocks set by the user, sync boost) say why a clock is what it is without
# anything being wrong.
THROTTLE_REASONS = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
