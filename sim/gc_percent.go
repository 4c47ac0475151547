package sim

// GCPercent is the GOGC value, in percent, that suits simulations. Each simulation consists
// of many small, short-lived objects, while the cost of a collection depends on what the
// process keeps. A much higher value evicts the CPU caches of a busy machine.
const GCPercent = 800
