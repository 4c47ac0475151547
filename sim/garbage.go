package sim

// Garbage is how much of it suits worlds, in percent of what is kept, as GOGC counts:
// each is made of many small things that are garbage soon, and a collection costs what
// is kept by the process besides.
const Garbage = 1600
