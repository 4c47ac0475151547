package operate

import (
	"os"
	"os/user"
	"strings"
)

// UserAtHost names who runs this process, for histories: "ada@desk".
func UserAtHost() string {
	name := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username[strings.LastIndexByte(u.Username, '\\')+1:] // Windows has the domain before it
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return name
	}
	return name + "@" + host
}
