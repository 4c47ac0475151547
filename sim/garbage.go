package sim

// Garbage is how much of it suits worlds, in percent of what is kept, as GOGC counts:
// each is made of many small things that are garbage soon, and a collection costs what
// is kept by the process besides. With much more of it the caches of a busy machine are
// of no use.
const Garbage = 800
