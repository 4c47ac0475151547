package sim

import "time"

// InProcess is what a simulation needs of its Redis.
type InProcess = inProcess

// On returns cfg to be run on the Redis that open starts.
func (cfg Config) On(open func(start time.Time, added func(key string, fields []string)) (InProcess, error)) Config {
	cfg.redis = open
	return cfg
}

// OnOwn returns cfg to be run on the simulator's own Redis.
func (cfg Config) OnOwn() Config { return cfg.On(openOwn) }
